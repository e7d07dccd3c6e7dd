"""Snapshots of sessions on the compacted topic, and the marker that says what they contain.

A round writes the snapshot of every session that changed since the last round, over as many
transactions as it takes, and then the partition's marker O: every session's latest snapshot
holds at least all its batches before offset O of the log. A restore loads the snapshots and
replays the log from O; snapshots may be newer than the marker, replay ignores what they hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from surfacelog.processors.sequencer.sessions import Packed
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.records import SessionSnapshot
from surfacelog.schemas.topics import MARKER_KEY_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfacelog.schemas.codec import Codec

PART_BYTES: Final = 512 * 1024
"""The largest piece of a state in one record: below the smallest record limit, 1 MiB."""

_PART_SEPARATOR: Final = b"\x00"


class Keyed(NamedTuple):
    """A record for the `sessions` topic."""

    key: bytes
    value: bytes


@dataclass(slots=True)
class Round:
    """A snapshot round: the marker to write and the sessions that still need their snapshot."""

    offset: int
    pending: list[str]


def marker_key(partition: int) -> bytes:
    """Return the key of a partition's marker."""
    return MARKER_KEY_PREFIX + str(partition).encode()


def snapshot_records(codec: Codec, session_id: str, packed: Packed) -> list[Keyed]:
    """Return a session's snapshot as records; they belong into one transaction."""
    state = packed.state
    pieces = [state[at : at + PART_BYTES] for at in range(0, len(state), PART_BYTES)]
    return [
        Keyed(
            _part_key(session_id, part),
            codec.encode_snapshot(
                SessionSnapshot(session_id, packed.next_seq, packed.epoch, part, len(pieces), piece)
            ),
        )
        for part, piece in enumerate(pieces)
    ]


def _part_key(session_id: str, part: int) -> bytes:
    key = session_id.encode()
    return key + _PART_SEPARATOR + str(part).encode() if part else key


@dataclass(slots=True)
class SnapshotLoader:
    """Puts the records of one partition's `sessions` topic together again, in any number."""

    codec: Codec
    marker: int | None = None
    _parts: dict[str, dict[int, SessionSnapshot]] = field(default_factory=dict)

    def add(self, key: bytes, value: bytes) -> None:
        """Take the next record of the partition in."""
        if key.startswith(MARKER_KEY_PREFIX):
            self.marker = self.codec.decode_marker(value).offset
            return
        snapshot = self.codec.decode_snapshot(value)
        self._parts.setdefault(snapshot.session_id, {})[snapshot.part] = snapshot

    def sessions(self) -> Iterator[tuple[str, Packed]]:
        """Yield the latest snapshot of each session.

        Raises CorruptLogError when a part is missing: the parts of a snapshot are committed
        together, so the topic has lost records.
        """
        for session_id, parts in self._parts.items():
            first = parts.get(0)
            # A larger snapshot of before may have left parts with higher numbers.
            whole = [parts.get(part) for part in range(first.parts)] if first else [None]
            if first is None or any(not _belong_together(first, part) for part in whole):
                raise CorruptLogError(
                    f"{session_id}: a part of its snapshot is missing; empty the sessions topic,"
                    " so that the sequencer replays the log"
                )
            state = b"".join(part.state for part in whole if part is not None)
            yield session_id, Packed(first.next_seq, first.epoch, state)


def _belong_together(first: SessionSnapshot, part: SessionSnapshot | None) -> bool:
    return part is not None and (part.next_seq, part.epoch, part.parts) == (
        first.next_seq,
        first.epoch,
        first.parts,
    )
