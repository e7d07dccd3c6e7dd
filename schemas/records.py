"""The records of the bus (DESIGN 3) as frozen data. The codec turns them into Avro and back.

An event is a JSON object as in a session log (SEMANTICS 1): `type`, `seq`, `time`, `data`,
optionally `ignorable`, `sourceEventSeqs` and `surfaceOp`. Events inside an append have no `seq`
yet: it follows from the append's place. A `ChunkRun` stands for several events.

The four records that a sequencer makes for every append are not frozen: a frozen one of eleven
fields takes longer to make. Nobody changes one, except that an admitted batch is given its chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.schemas.event_types import Role
    from surfacelog.schemas.json_value import JsonObject

ChunkKind = Literal["text", "reasoning", "tool-call"]


@dataclass(slots=True)
class ChunkRun:
    """n >= 1 consecutive plain delta chunks of one turn, step, index and kind, as columns.

    `time` is the first chunk's, in ms; `dt` are the n-1 signed differences; `deltas` the n
    texts (`argumentsDelta` for tool calls). `call_id` is given for tool calls only, `name` only
    when every chunk of the run carries it.
    """

    time: int
    turn: int
    step: int
    index: int
    kind: ChunkKind
    dt: Sequence[int]
    deltas: Sequence[str]
    call_id: str | None = None
    name: str | None = None

    def __len__(self) -> int:
        return len(self.deltas)


Item: TypeAlias = "JsonObject | ChunkRun"
"""One entry of an append: an event without seq, or a chunk run."""


def event_count(items: tuple[Item, ...]) -> int:
    """Return how many events, and so how many seqs, the items stand for."""
    return sum(len(item) if isinstance(item, ChunkRun) else 1 for item in items)


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must hold at the append's place in the log, else it is refused `expectation`."""

    next_seq: int | None = None
    generation: int | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """Create the session or take its ownership (DESIGN 4).

    `header` is the session header (SEMANTICS 8) to keep in the log when the session is created.
    `loading` True reserves the session for this writer (import, fork) until it sends its last
    append, which carries `open` again with `loading` False and bumps no epoch.
    """

    header: JsonObject
    loading: bool = False


@dataclass(slots=True)
class AppendRequest:
    """What a writer asks for: all of `items` in the log, in order, or nothing.

    `append_seq` counts 0, 1, 2, ... per session and writer; `attempt` counts the sends of one
    append_seq. `epoch` is the owner's, 0 for everyone else. A negative entry -1-i in
    `sourceEventSeqs` cites the i-th event of this append.
    """

    session_id: str
    writer_id: str
    epoch: int
    append_seq: int
    attempt: int
    role: Role
    items: tuple[Item, ...] = ()
    open: Open | None = None
    expect: Expectation | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """What an admitted `open` leaves in the log: the header, the new epoch, the loading mark."""

    header: JsonObject
    epoch: int
    loading: bool


@dataclass(slots=True)
class EventBatch:
    """One admitted append, one record of the log.

    `admitted_at` is the sequencer's clock in ms UTC. `request_digest` (8 bytes) recognizes a
    resend; `chain` (16 bytes) binds this batch to all before it (see `schemas.chain`).
    """

    session_id: str
    first_seq: int
    writer_id: str
    append_seq: int
    role: Role
    epoch: int
    admitted_at: int
    request_digest: bytes
    chain: bytes
    items: tuple[Item, ...]
    opened: Opened | None = None

    @property
    def next_seq(self) -> int:
        """The first seq after this batch."""
        return self.first_seq + event_count(self.items)


ReceiptStatus = Literal["committed", "duplicate", "refused"]


@dataclass(slots=True)
class Receipt:
    """The sequencer's answer to one send of one append.

    `first_seq` and `last_seq` are inclusive; both None for a refusal, for an append without
    events and for a duplicate older than the writer's last 32. `event_index` counts items.
    """

    session_id: str
    writer_id: str
    append_seq: int
    attempt: int
    status: ReceiptStatus
    first_seq: int | None = None
    last_seq: int | None = None
    epoch: int | None = None
    code: str | None = None
    event_index: int | None = None
    message: str | None = None


Trigger = Literal["pressure", "context-overflow", "manual"]


@dataclass(frozen=True, slots=True)
class SeqRange:
    """An inclusive span of the Surface, named by its first and last node (SEMANTICS 1)."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CompactionRequest:
    """A wish for a compaction. `range` None lets the worker choose; `retain_tokens` likewise."""

    request_id: str
    session_id: str
    trigger: Trigger
    generation: int
    requested_by: str
    range: SeqRange | None = None
    retain_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """One part of a sequencer's snapshot of one session (compacted topic, opaque `state`)."""

    session_id: str
    next_seq: int
    epoch: int
    part: int
    parts: int
    state: bytes


@dataclass(frozen=True, slots=True)
class SnapshotMarker:
    """Every session's latest snapshot of this partition holds all its batches before `offset`."""

    partition: int
    offset: int
