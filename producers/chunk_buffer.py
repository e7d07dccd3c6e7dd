"""Streamed chunks on their way into an append: one append for many, none is waited for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surfacelog.schemas.codec import EncodeError
from surfacelog.schemas.json_text import JsonTextError, dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.schemas.json_value import JsonObject


@dataclass(frozen=True, slots=True)
class Streaming:
    """When streamed chunks are sent: as soon as one of the three is reached.

    `events` counts chunks, `bytes` their JSON text, `seconds` the time since the oldest came.
    """

    events: int = 64
    bytes: int = 32 * 1024
    seconds: float = 0.05


class ChunkBuffer:
    """The assistant/chunk events that are not sent yet, in order."""

    def __init__(self, limits: Streaming) -> None:
        self._limits = limits
        self._events: list[JsonObject] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    @property
    def is_full(self) -> bool:
        """Whether what is here makes an append by its size."""
        return len(self._events) >= self._limits.events or self._bytes >= self._limits.bytes

    def add(self, event: JsonObject) -> None:
        """Add the next event. Raises EncodeError for one that is no JSON."""
        size = _size(event)
        self._events.append(event)
        self._bytes += size

    def take(self) -> tuple[JsonObject, ...]:
        """Return what is here, and be empty."""
        taken = tuple(self._events)
        self._events.clear()
        self._bytes = 0
        return taken

    def put_back(self, events: Sequence[JsonObject]) -> None:
        """Undo a `take`: the events were not sent, and later ones may have come meanwhile."""
        self._events[:0] = events
        self._bytes += sum(map(_size, events))


def _size(event: JsonObject) -> int:
    try:
        return len(dumps(event["data"]))
    except JsonTextError as error:
        raise EncodeError(f"a chunk that is {error}") from error
