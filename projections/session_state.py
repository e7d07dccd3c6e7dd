"""What the sequencer must know of a session to admit its next append (DESIGN 4: state).

All of it derives from the batches of the log, so a replay gives exactly what live admission
gave; refused appends leave nothing behind.
"""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Final

from surfacelog.projections.agent_loop import AgentLoop
from surfacelog.projections.compaction_bracket import Brackets
from surfacelog.projections.inbox import Inbox
from surfacelog.projections.surface_nodes import SurfaceNodes
from surfacelog.projections.writers import Writers
from surfacelog.schemas.citations import resolve_citations
from surfacelog.schemas.errors import CorruptLogError, UnsupportedLogError
from surfacelog.schemas.event_types import CORE_TYPES, INBOX_POSTED, SURFACE_TYPES
from surfacelog.schemas.json_text import dumps, loads
from surfacelog.schemas.json_value import whole_member
from surfacelog.schemas.records import ChunkRun

if TYPE_CHECKING:
    from surfacelog.projections.compaction_bracket import Bracket
    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import EventBatch, Item

SNAPSHOT_VERSION: Final = 4

EFFECTIVE_TYPES: Final = (
    CORE_TYPES
    - {"assistant/chunk", "todo/write", "request/header", "request/context", "compaction/prune"}
) | {INBOX_POSTED}
"""The types that change what may follow; all others only take their place in the log."""


class SessionState:
    """One session at the end of its log. Mutable: whoever applies batches owns the copy.

    `last_time` is the last event's time in ms, `chain` the head of the digest chain. `owner` is
    the writer that opened the session last, with `epoch`; while `loading` it alone is admitted.
    `header` is the session header.
    """

    __slots__ = (
        "_shares_rules",
        "brackets",
        "chain",
        "ends_with_seed",
        "epoch",
        "header",
        "inbox",
        "last_time",
        "loading",
        "loop",
        "next_seq",
        "owner",
        "session_id",
        "surface",
        "writers",
    )

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.next_seq = 0
        self.epoch = 0
        self.chain = b""
        self.last_time = 0
        self.owner = ""
        self.loading = False
        self.ends_with_seed = False
        self.header: JsonObject = {}
        self._shares_rules = False
        self.brackets = Brackets()
        self.loop = AgentLoop()
        self.surface = SurfaceNodes()
        self.inbox = Inbox()
        self.writers = Writers()

    @classmethod
    def new(cls, session_id: str) -> SessionState:
        """Return the state before the first append."""
        return cls(session_id)

    @property
    def generation(self) -> int:
        """How many replacements the surface has seen."""
        return self.surface.generation

    @property
    def bracket(self) -> Bracket | None:
        """The open compaction, None when there is none."""
        return self.brackets.open

    def copy(self) -> SessionState:
        """Return an independent copy.

        What only `advance` changes is shared until one of the two advances: most appends are
        chunks, which change none of it, and a Surface may be long.
        """
        copy = SessionState.__new__(SessionState)
        copy._shares_rules = self._shares_rules = True
        copy.session_id = self.session_id
        copy.next_seq = self.next_seq
        copy.epoch = self.epoch
        copy.chain = self.chain
        copy.last_time = self.last_time
        copy.owner = self.owner
        copy.loading = self.loading
        copy.ends_with_seed = self.ends_with_seed
        copy.header = self.header
        copy.brackets, copy.loop = self.brackets, self.loop
        copy.surface, copy.inbox = self.surface, self.inbox
        copy.writers = self.writers.copy()
        return copy

    def apply(self, batch: EventBatch) -> bool:
        """Fold the next batch of the log; return False for one that is contained already.

        A batch is the next one when it begins at `next_seq` and has events or a greater epoch.
        Raises CorruptLogError when it begins later: something is missing in between.
        """
        if batch.first_seq > self.next_seq:
            raise CorruptLogError(
                f"{self.session_id}: the log goes on at seq {batch.first_seq}, but {self.next_seq}"
                " is next: batches are missing, replay from an earlier offset"
            )
        if batch.first_seq < self.next_seq or not (batch.items or batch.epoch > self.epoch):
            return False
        self.chain = batch.chain
        if batch.opened is not None:
            self.header, self.epoch = batch.opened.header, batch.opened.epoch
            self.loading, self.owner = batch.opened.loading, batch.writer_id
        self._advance_items(batch)
        self.writers.record(batch, self.next_seq)
        self.writers.forget_idle(self.owner, self.bracket and self.bracket.writer_id)
        return True

    def _advance_items(self, batch: EventBatch) -> None:
        first_seq = seq = batch.first_seq
        for item in batch.items:
            if isinstance(item, ChunkRun):
                seq += len(item.deltas)
                continue
            if item["type"] in EFFECTIVE_TYPES:
                event = resolve_citations(item, first_seq)
                self.advance(event, seq, batch.writer_id, live=batch.role != "importer")
            seq += 1
        self.next_seq = seq
        if batch.items:
            last = batch.items[-1]
            self.last_time = _time(last)
            self.ends_with_seed = _is_end_seed(last)

    def advance(self, event: JsonObject, seq: int, writer_id: str, *, live: bool) -> None:
        """Fold the effect of one event on the session's rules, whatever those rules say.

        Its citations are resolved; `live` False says that an importer wrote it. Positions
        (`next_seq`, `last_time`) move with whole batches.
        """
        kind = event["type"]
        if self._shares_rules:
            self._own_rules()
        self.loop.advance(event, seq, live=live)
        self.brackets.advance(event, writer_id)
        if kind in SURFACE_TYPES:
            self.surface.advance(event, seq)
        if kind == "user/message":
            self.inbox.claim(event)
        elif kind == INBOX_POSTED:
            self.inbox.post(seq)

    def _own_rules(self) -> None:
        self.brackets, self.loop = self.brackets.copy(), self.loop.copy()
        self.surface, self.inbox = self.surface.copy(), self.inbox.copy()
        self._shares_rules = False

    def to_bytes(self) -> bytes:
        """Return a snapshot: about 1 KB for an idle session of a hundred nodes."""
        parts: list[JsonValue] = [
            self.session_id,
            self.next_seq,
            self.epoch,
            self.chain.hex(),
            self.last_time,
            self.owner,
            self.loading,
            self.ends_with_seed,
            dumps(self.header),
            self.brackets.to_json(),
            self.loop.to_json(),
            self.surface.to_json(),
            self.inbox.to_json(),
            self.writers.to_json(),
        ]
        # Only the header is of any depth and spelling; the rest is ours, and plain json is quick.
        text = json.dumps(parts, separators=(",", ":"))
        return bytes([SNAPSHOT_VERSION]) + zlib.compress(text.encode())

    @classmethod
    def from_bytes(cls, snapshot: bytes) -> SessionState:
        """Return the state that a snapshot holds.

        Raises UnsupportedLogError for a snapshot of another version of this code: it is no loss,
        the log has everything.
        """
        if not snapshot or snapshot[0] != SNAPSHOT_VERSION:
            raise UnsupportedLogError(
                f"a session snapshot of version {snapshot[:1].hex()}, not {SNAPSHOT_VERSION}:"
                " empty the sessions topic, so that the sequencer replays the log"
            )
        parts = json.loads(zlib.decompress(snapshot[1:]))
        state = cls(parts[0])
        state.next_seq, state.epoch, state.chain = parts[1], parts[2], bytes.fromhex(parts[3])
        state.last_time, state.owner, state.loading, state.ends_with_seed = parts[4:8]
        header = loads(parts[8])
        state.header = header if isinstance(header, dict) else {}
        state.brackets = Brackets.from_json(parts[9])
        state.loop = AgentLoop.from_json(parts[10])
        state.surface = SurfaceNodes.from_json(parts[11])
        state.inbox = Inbox.from_json(parts[12])
        state.writers = Writers.from_json(parts[13])
        return state


def _time(item: Item) -> int:
    if isinstance(item, ChunkRun):
        return item.time + sum(item.dt)
    return whole_member(item, "time") or 0


def _is_end_seed(item: Item) -> bool:
    return not isinstance(item, ChunkRun) and item["type"] == "session/end-seed"
