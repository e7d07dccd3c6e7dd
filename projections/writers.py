"""The writers of one session: what each has in the log, so that a resend is recognized."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from surfacelog.projections.snapshot_columns import differences, pack_digests, unpack_digests
from surfacelog.schemas.topics import REQUEST_RETENTION_MS

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonValue
    from surfacelog.schemas.records import EventBatch

REMEMBERED_APPENDS: Final = 32
"""How many appends of a writer keep their seqs: as many as it may have in flight (DESIGN 4)."""


class Appended(NamedTuple):
    """One admitted append: its events are `first_seq` to `next_seq - 1` (none when equal)."""

    first_seq: int
    next_seq: int
    epoch: int
    digest: bytes


class Writer(NamedTuple):
    """One writer incarnation, of one role. `recent` ends with the append `last_append_seq`.

    `active_at` is the log's clock (ms UTC) at its last append.
    """

    role: str
    last_append_seq: int
    active_at: int
    recent: tuple[Appended, ...]

    def find(self, append_seq: int) -> Appended | None:
        """Return what a known append_seq became, or None when it is older than the last 32."""
        back = self.last_append_seq - append_seq
        return self.recent[-1 - back] if back < len(self.recent) else None


class Writers:
    """All remembered writers, the one that was idle for longest first.

    Time is the log's own (`admitted_at`, never going back), so that a replay forgets the same
    writers at the same place as the live sequencer did.
    """

    __slots__ = ("by_id", "clock")

    def __init__(self, by_id: dict[str, Writer] | None = None, clock: int = 0) -> None:
        self.by_id: dict[str, Writer] = {} if by_id is None else by_id
        self.clock = clock

    def copy(self) -> Writers:
        """Return an independent copy."""
        return Writers(self.by_id.copy(), self.clock)

    def record(self, batch: EventBatch, next_seq: int) -> None:
        """Note an admitted batch."""
        if batch.admitted_at > self.clock:
            self.clock = batch.admitted_at
        entry = Appended(batch.first_seq, next_seq, batch.epoch, batch.request_digest)
        # Taken out and put back: the dict stays ordered by last activity.
        known = self.by_id.pop(batch.writer_id, None)
        recent: tuple[Appended, ...] = (entry,)
        if known is not None:
            recent = known.recent[1 - REMEMBERED_APPENDS :] + recent
        self.by_id[batch.writer_id] = Writer(batch.role, batch.append_seq, self.clock, recent)

    def forget_idle(self, *keep: str | None) -> None:
        """Drop writers idle for longer than requests are retained, except those to keep."""
        limit = self.clock - REQUEST_RETENTION_MS
        idle = []
        for writer_id, writer in self.by_id.items():
            if writer.active_at >= limit:
                break
            if writer_id not in keep:
                idle.append(writer_id)
        for writer_id in idle:
            del self.by_id[writer_id]

    def to_json(self) -> JsonValue:
        """Return a compact form for snapshots: first seqs and times as differences."""
        rows: list[JsonValue] = []
        for writer_id, writer in self.by_id.items():
            rows.append(
                [
                    writer_id,
                    writer.role,
                    writer.last_append_seq,
                    self.clock - writer.active_at,
                    differences(entry.first_seq for entry in writer.recent),
                    [entry.next_seq - entry.first_seq for entry in writer.recent],
                    differences(entry.epoch for entry in writer.recent),
                    pack_digests(entry.digest for entry in writer.recent),
                ]
            )
        return [self.clock, rows]

    @classmethod
    def from_json(cls, value: Any) -> Writers:
        """Return what `to_json` was given."""
        clock, rows = value
        writers = cls(clock=clock)
        for writer_id, role, last, idle, firsts, counts, epochs, digests in rows:
            columns = zip(
                accumulate(firsts), counts, accumulate(epochs), unpack_digests(digests), strict=True
            )
            recent = tuple(
                Appended(first, first + count, epoch, digest)
                for first, count, epoch, digest in columns
            )
            writers.by_id[writer_id] = Writer(role, last, clock - idle, recent)
        return writers
