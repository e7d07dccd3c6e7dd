"""What each append changes in a session's stored Surface: pure, and O(1) an event (DESIGN 6).

A view holds the little that the next append needs: positions, the meter, the open turn and step.
The node list is needed for replacements only, and read back only then. The stream of the open
step stays in memory until a message cites it; after a restart it is read from the log again, so
that streaming chunks cost no write but the watermark's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.projections.messages import derived_message
from surfacelog.projections.meter import Meter, MeterError
from surfacelog.projections.pressure import Asked, Load, PressureFacts
from surfacelog.projections.request_header import canonical_header
from surfacelog.projections.session_change import SessionChange
from surfacelog.projections.tokens import message_price
from surfacelog.schemas.chunk_runs import unpack_items
from surfacelog.schemas.citations import resolve_citations
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.event_types import INBOX_POSTED
from surfacelog.schemas.json_text import dumps, loads
from surfacelog.schemas.json_value import (
    int_member,
    list_member,
    member,
    object_member,
    text_member,
)
from surfacelog.schemas.records import ChunkRun, SeqRange
from surfacelog.schemas.surface_form import is_surface_type, replaced_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.projections.store import StoredSession
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import EventBatch, Item


class GapError(CorruptLogError):
    """An append came whose predecessors were not applied."""

    code = "gap"


def replaces(batch: EventBatch) -> bool:
    """Return whether an append replaces nodes, so that the view must know them."""
    return any(
        not isinstance(item, ChunkRun) and isinstance(item.get("surfaceOp"), dict)
        for item in batch.items
    )


class SessionView:
    """One session at its watermark, `next_seq` - 1. Mutable; `offset` is the last append's.

    `pressure` is what the log says of its compactions, `asked` what was asked for last because
    it was full. After `apply` raised, the view is in no defined state: drop it.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.next_seq = 0
        self.offset = -1
        self.generation = 0
        self.activity = 0
        self.step_seq = 0
        self.has_surface = True
        self.pressure = PressureFacts()
        self.asked: Asked | None = None
        self._compacting = False
        self._loading = False
        self._meter = Meter()
        self._nodes: list[int] = []
        self._prices: dict[int, int] = {}
        self._stream: list[tuple[int, Item]] = []
        self._stream_from = 0

    @classmethod
    def restore(cls, session_id: str, stored: StoredSession, *, surface: bool) -> SessionView:
        """Return the view of a stored session; `surface` when it was read with its nodes."""
        view = cls(session_id)
        fields = stored.fields
        if not fields:
            return view
        view.next_seq = view._stream_from = int(fields["watermark"]) + 1
        view.offset = int(fields["offset"])
        view.generation = int(fields.get("generation", 0))
        view.activity = int(fields.get("activity", 0))
        view.step_seq = int(fields.get("step_seq", 0))
        view._compacting = bool(fields.get("compaction"))
        view._loading = fields.get("loading") == "1"
        if "meter" in fields:
            view._meter = Meter.from_json(loads(fields["meter"]))
        if "pressure" in fields:
            view.pressure = PressureFacts.from_json(loads(fields["pressure"]))
        if "asked" in fields:
            view.asked = Asked.from_text(fields["asked"])
        view.has_surface = surface
        view._nodes, view._prices = list(stored.nodes), dict(stored.prices)
        return view

    def contains(self, batch: EventBatch, offset: int) -> bool:
        """Return whether an append was applied before (the replay rule of the sequencer)."""
        if batch.first_seq == self.next_seq:
            return not batch.items and offset <= self.offset
        return batch.first_seq < self.next_seq

    def load(self) -> Load:
        """Return how full the session is."""
        try:
            total = self._meter.measure().total
        except MeterError:
            total = None
        busy = self._compacting or self._loading
        return Load(total, self._meter.surface, self._meter.header, self.generation, busy)

    def missing_chunks(self, batch: EventBatch) -> SeqRange | None:
        """Return the seqs of the open step's stream that a message cites and the view lacks."""
        for item in batch.items:
            if isinstance(item, ChunkRun) or item["type"] != "assistant/message":
                continue
            sources = list_member(resolve_citations(item, batch.first_seq), "sourceEventSeqs")
            cited = min((seq for seq in sources if isinstance(seq, int)), default=self._stream_from)
            if "usage" in object_member(item, "data") and cited < self._stream_from:
                first = max(cited, self.step_seq)
                return SeqRange(first, self._stream_from - 1) if first < self._stream_from else None
        return None

    def add_chunks(self, events: Iterable[JsonObject]) -> None:
        """Put the missing chunks, as events of the log, before what the view has."""
        chunks = [e for e in events if e["type"] == "assistant/chunk"]
        self._stream[:0] = [(_seq(event), event) for event in chunks]
        self._stream_from = self.step_seq

    def apply(self, batch: EventBatch, offset: int) -> SessionChange:
        """Take the next append; return what it changes.

        Raises GapError when it is not the next one, and other errors when the log contradicts
        itself: a sequencer never admits such an append.
        """
        if batch.first_seq != self.next_seq:
            raise GapError(f"seq {batch.first_seq} came, but {self.next_seq} is next")
        change = SessionChange(self.session_id, batch.first_seq, batch.next_seq, offset)
        change.fields.update(epoch=batch.epoch, chain=batch.chain.hex())
        if batch.opened is not None:
            self._loading = batch.opened.loading
            change.fields["loading"] = int(self._loading)
        before = self._meter.surface
        for item in batch.items:
            self._apply_item(item, batch.first_seq, change)
        if self._meter.surface != before:
            change.fields["tokens"] = self._meter.surface
        self.offset = offset
        return change

    def _apply_item(self, item: Item, first_seq: int, change: SessionChange) -> None:
        if isinstance(item, ChunkRun):
            self._stream.append((self.next_seq, item))
            self._active(item.time + sum(item.dt), change)
            self.next_seq += len(item)
            return
        event: JsonObject = {**resolve_citations(item, first_seq), "seq": self.next_seq}
        if event["type"] != "session/end-seed":
            self._active(int_member(event, "time") or 0, change)
        self._apply_event(event, change)
        self.next_seq += 1

    def _active(self, time: int, change: SessionChange) -> None:
        self.activity = change.fields["activity"] = time

    def _apply_event(self, event: JsonObject, change: SessionChange) -> None:
        kind, data = event["type"], event.get("data")
        facts = self.pressure.after(event)
        if facts is not self.pressure:
            self.pressure = facts
            change.fields["pressure"] = dumps(facts.to_json())
        if kind == "assistant/chunk":
            self._stream.append((self.next_seq, event))
        elif is_surface_type(kind):
            self._apply_surface(event, change)
        elif kind in ("turn/start", "turn/end", "step/start", "step/end"):
            self._apply_boundary(event, change)
        elif kind == "request/header":
            change.header = dumps(canonical_header(member(data, "header")))
            change.fields["header_seq"] = self.next_seq
            self._measure(event, change)
        elif kind == "request/context":
            change.context = dumps(object_member(event, "data"))
            change.fields["context_seq"] = self.next_seq
        elif kind == "compaction/start":
            self._compacting = True
            change.fields["compaction"] = text_member(data, "compactionId") or ""
            change.fields["compaction_seq"] = self.next_seq
        elif kind in ("compaction/end", "session/end-seed"):
            self._compacting = False
            change.fields["compaction"] = ""
        elif kind == INBOX_POSTED:
            change.posts[self.next_seq] = dumps(event)

    def _apply_boundary(self, event: JsonObject, change: SessionChange) -> None:
        what, edge = str(event["type"]).split("/")
        number = int_member(event.get("data"), what) if edge == "start" else None
        change.fields[what] = "" if number is None else number
        if what == "turn":
            change.fields["step"] = ""
            return
        self._stream.clear()
        self.step_seq = self._stream_from = change.fields["step_seq"] = self.next_seq
        self._measure(event, change)

    def _apply_surface(self, event: JsonObject, change: SessionChange) -> None:
        message = derived_message(event)
        price = message_price(message)
        replaced = replaced_range(event)
        shadowed = 0
        if replaced is None:
            self._push(change)
            change.transcript.append(self.next_seq)
        else:
            shadowed = self._replace(replaced, change)
        change.prices[self.next_seq] = price
        if self.has_surface:
            self._prices[self.next_seq] = price
        if message is not None:
            change.messages[self.next_seq] = dumps(message)
        if event["type"] == "user/message":
            change.claims += [s for s in list_member(event, "sourceEventSeqs") if type(s) is int]
        if event["type"] == "assistant/message":
            self._feed_stream()
        self._measure(event, change, shadowed)

    def _push(self, change: SessionChange) -> None:
        if self.has_surface:
            self._nodes.append(self.next_seq)
        if change.nodes is None:
            change.pushed.append(self.next_seq)
        else:
            change.nodes.append(self.next_seq)

    def _replace(self, replaced: SeqRange, change: SessionChange) -> int:
        """Put this event in the place of a span; return the price of what it shadows."""
        try:
            first, last = self._nodes.index(replaced.start), self._nodes.index(replaced.end)
        except ValueError:
            raise CorruptLogError(f"{replaced} is not on the Surface") from None
        if first > last:
            raise CorruptLogError(f"{replaced} stands in reverse on the Surface")
        shadowed = self._nodes[first : last + 1]
        self._nodes[first : last + 1] = [self.next_seq]
        change.nodes, change.pushed = self._nodes.copy(), []
        for seq in shadowed:
            if change.prices.pop(seq, None) is None:
                change.dropped.append(seq)
            change.messages.pop(seq, None)
        self.generation += 1
        change.fields["generation"] = self.generation
        return sum(self._prices.pop(seq) for seq in shadowed)

    def _feed_stream(self) -> None:
        """Give the meter the stream that the message may cite; it forgets it at the step's end."""
        for seq, item in self._stream:
            for event in unpack_items((item,), seq):
                self._meter.apply(event)
        self._stream.clear()

    def _measure(self, event: JsonObject, change: SessionChange, shadowed: int = 0) -> None:
        self._meter.apply(event, shadowed)
        change.fields["meter"] = dumps({**self._meter.to_json(), "stream": []})


def _seq(event: JsonObject) -> int:
    seq = int_member(event, "seq")
    if seq is None:
        raise CorruptLogError("an event of the log has no seq")
    return seq
