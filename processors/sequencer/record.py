"""A consumed record, as the sequencer uses it."""

from __future__ import annotations

from typing import Protocol


class Record(Protocol):
    """confluent_kafka's Message without its error: then all of this is there.

    The client types every member as optional, because a Message may be an error instead.
    """

    def topic(self) -> str:
        """Return the topic that it was read from."""

    def partition(self) -> int:
        """Return the partition number that it was read from."""

    def offset(self) -> int:
        """Return its place in the partition."""

    def key(self) -> bytes | None:
        """Return the key."""

    def value(self) -> bytes | None:
        """Return the value; None for a tombstone."""

    def __len__(self) -> int:
        """Return the length of the value in bytes."""
