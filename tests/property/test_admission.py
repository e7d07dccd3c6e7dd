"""Random traffic, legal and not, against the pure folds of the log that it leaves."""

from __future__ import annotations

import copy
from itertools import accumulate
from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.live_session import (
    HEADER,
    LiveSession,
    admitted,
    assistant,
    call,
    checkpoint,
    compaction_end,
    compaction_start,
    event,
    posted,
    prune,
    receipt,
    result,
    run,
    span,
    step_end,
    step_start,
    summary,
    turn_end,
    turn_start,
    user,
)

from surfacelog.projections.admission import Admitted, Decision, Duplicate, Refused
from surfacelog.projections.invariants import InvariantError
from surfacelog.projections.session_invariants import SessionTrace
from surfacelog.projections.session_state import SessionState
from surfacelog.projections.surface import SurfaceFold
from surfacelog.schemas.chunk_runs import unpack_items
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.records import AppendRequest, EventBatch, Item, Open
from surfacelog.schemas.refusals import CODES
from surfacelog.schemas.topics import REQUEST_RETENTION_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from surfacelog.projections.surface_nodes import Node
    from surfacelog.schemas.json_value import JsonObject

CALLS = ("c1", "c2", "c3")
# Rules that only the sequencer has: what the pure folds take, it may still refuse for these.
STRICTER = {"pairing", "role", "fenced", "inbox.claimed", "inbox.full", "malformed"} | {
    code for code in CODES if code.startswith("compaction.")
}


class Traffic(RuleBasedStateMachine):
    """Writers of every role at one session."""

    def __init__(self) -> None:
        super().__init__()
        self.session = LiveSession()
        self.requests: list[AppendRequest] = []
        self.surface = SurfaceFold()
        self.trace = SessionTrace()
        self.owner = "agent0"
        # A writer that comes back after a long time takes a new id, as SessionWriter does.
        self.era = 0

    @initialize()
    def create(self) -> None:
        admitted(self.session.open(self.owner))

    @property
    def state(self) -> SessionState:
        assert self.session.state is not None
        return self.session.state

    @rule(data=st.data())
    def owner_appends(self, data: st.DataObject) -> None:
        items = tuple(self._owner_item(data) for _ in range(data.draw(st.integers(1, 3))))
        self._send(self.session.request(self.owner, "owner", *items))

    @rule(data=st.data())
    def owner_goes_on(self, data: st.DataObject) -> None:
        """Do what a well-behaved owner would do next, so that sessions get somewhere."""
        items = self._next_items(data)
        request = self.session.request(self.owner, "owner", *items)
        assert isinstance(self._send(request), Admitted)

    @rule(data=st.data())
    def compactor_acts(self, data: st.DataObject) -> None:
        worker = f"worker{data.draw(st.integers(0, 1))}.{self.era}"
        bracket = self.state.bracket
        known = [bracket.compaction_id] * 3 if bracket else []
        compaction = data.draw(st.sampled_from([*known, "k0", "k1", f"k{len(self.session.log)}"]))
        actions = (
            ("land", "land", "land", "steps", "end", "prune") if bracket else ("start", "prune")
        )
        action = data.draw(st.sampled_from((*actions, "start", "land")))
        items = self._compactor_items(data, action, compaction)
        self._send(self.session.request(worker, "compactor", *items))

    @rule(count=st.integers(1, 3), peer=st.integers(0, 1))
    def peer_posts(self, count: int, peer: int) -> None:
        writer = f"peer{peer}.{self.era}"
        self._send(self.session.request(writer, "contributor", *[posted()] * count))

    @rule(data=st.data())
    def someone_else_opens(self, data: st.DataObject) -> None:
        self.owner = f"agent{data.draw(st.integers(0, 2))}.{self.era}"
        self._send(self.session.request(self.owner, "owner", open=Open(HEADER)))

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def a_request_is_sent_again(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.requests))
        batch = next((b for b in self.session.log if _is_answer(b, request)), None)
        assert batch is not None
        if request.writer_id not in self.state.writers.by_id:
            return  # nothing is sent for so long that its writer is forgotten
        decision = self.session.send(request)
        empty = batch.first_seq == batch.next_seq
        first, last = (None, None) if empty else (batch.first_seq, batch.next_seq - 1)
        assert decision == Duplicate(first, last, batch.epoch)

    @rule(hours=st.integers(1, 30))
    def time_passes(self, hours: int) -> None:
        self.session.now += hours * REQUEST_RETENTION_MS // 24
        self.era += 1

    @rule()
    def the_session_goes_idle(self) -> None:
        self.session.state = SessionState.from_bytes(self.state.to_bytes())

    def teardown(self) -> None:
        if self.session.state is None:
            return
        self.session.check()
        _check_brackets(self.session.events())

    def _next_items(self, data: st.DataObject) -> list[Item]:
        loop = self.state.loop
        if loop.turn is None:
            turn = loop.last_turn + 1
            return [turn_start(turn), step_start(1, turn), user()]
        if loop.step is None:
            return [step_start(loop.last_step + 1, loop.turn), user()]
        if loop.unanswered:
            ids = sorted(set(loop.unanswered))
            items: list[Item] = [
                call(i, turn=loop.turn, step=loop.step) for i in ids if i not in loop.pending
            ]
            long = "long " * 9
            return items + [result(i, long, turn=loop.turn, step=loop.step) for i in ids]
        calls = data.draw(st.lists(st.sampled_from(CALLS), max_size=2, unique=True))
        items = [run("x", turn=loop.turn, step=loop.step)]
        items.append(assistant(*calls, turn=loop.turn, step=loop.step))
        return items if calls else [*items, step_end(loop.step, loop.turn), turn_end(loop.turn)]

    def _send(self, request: AppendRequest) -> Decision:
        decision = self.session.send(request)
        first_seq = self.surface.next_seq
        if isinstance(decision, Admitted):
            self.requests.append(request)
            self.surface, self.trace = self._fold(decision.batch.items, first_seq)
            assert min(accumulate((n.delta for n in self.state.surface.nodes), initial=0)) == 0
        elif isinstance(decision, Refused) and decision.code not in STRICTER:
            try:
                self._fold(request.items, first_seq)
            except (AdmissionError, InvariantError):
                return decision
            raise AssertionError(f"refused what the folds take: {decision}")
        return decision

    def _fold(self, items: tuple[Item, ...], first_seq: int) -> tuple[SurfaceFold, SessionTrace]:
        surface, trace = copy.deepcopy(self.surface), copy.deepcopy(self.trace)
        for event_ in unpack_items(items, first_seq):
            surface.apply(event_)
            # A compactor may prune between turns; the trace knows only prunes inside of one.
            if event_["type"] != "tool/result" or event_["surfaceOp"] == "append":
                trace.take(event_)
        return surface, trace

    def _owner_item(self, data: st.DataObject) -> Item:
        loop = self.state.loop
        draw = data.draw
        turn = draw(st.sampled_from((loop.turn or loop.last_turn + 1, loop.last_turn + 1)))
        step = draw(st.sampled_from((loop.step or loop.last_step + 1, 1)))
        call_id = draw(st.sampled_from(CALLS))
        cited = draw(st.lists(st.integers(-3, self.state.next_seq + 1), max_size=3))
        sources: JsonObject = {} if not cited else {"sourceEventSeqs": [*cited]}
        makers: list[Callable[[], Item]] = [
            lambda: turn_start(turn),
            lambda: turn_end(turn),
            lambda: step_start(step, turn),
            lambda: step_end(step, turn),
            lambda: run("a", "b", turn=turn, step=step),
            lambda: {**assistant(call_id, turn=turn, step=step), **sources},
            lambda: call(call_id, turn=turn, step=step),
            lambda: result(call_id, turn=turn, step=step),
            lambda: {**user(), **sources},
            lambda: user(sourceEventSeqs=list(self.state.inbox.unclaimed[:1]) or [0]),
            lambda: event("todo/write", {"todos": []}),
            lambda: self._replacement(data),
        ]
        return draw(st.sampled_from(makers))()

    def _replacement(self, data: st.DataObject) -> JsonObject:
        nodes = self._span(data)
        seqs = [node.seq for node in nodes]
        if not seqs:
            return user()
        if data.draw(st.booleans()):
            seqs_cited = seqs[data.draw(st.integers(0, 1)) :]
            return user(op=span(seqs[0], seqs[-1]), sourceEventSeqs=[*seqs_cited] or [0])
        return result("c1", "short", op=span(seqs[0], seqs[-1]), sourceEventSeqs=[*seqs])

    def _compactor_items(
        self, data: st.DataObject, action: str, compaction: str
    ) -> tuple[Item, ...]:
        seqs = [node.seq for node in self._span(data)]
        if action == "start" or not seqs:
            return (compaction_start(compaction),)
        if action == "end":
            return (compaction_end(compaction, error="failed"),)
        if action == "prune":
            results = [n.seq for n in self.state.surface.nodes if n.kind == "tool/result"]
            seq = data.draw(st.sampled_from([*results, seqs[0]]))
            return (prune(seq), self._pruned(seq))
        landing = (summary(seqs, compaction), checkpoint(seqs, compaction, cites=[-1]))
        if action == "steps":
            return landing[: data.draw(st.integers(1, 2))]
        return (*landing, receipt(), compaction_end(compaction))

    def _pruned(self, seq: int) -> JsonObject:
        found = self.session.events()[seq]
        if found["type"] != "tool/result":
            return result("c1", op=span(seq, seq), sourceEventSeqs=[seq])
        pruned = copy.deepcopy(found)
        del pruned["seq"]
        pruned["data"]["message"]["content"][0]["content"] = []  # type: ignore[index, call-overload]
        pruned["surfaceOp"], pruned["sourceEventSeqs"] = span(seq, seq), [seq]
        return pruned

    def _span(self, data: st.DataObject) -> list[Node]:
        nodes = self.state.surface.nodes
        first = data.draw(st.one_of(st.just(0), st.integers(0, len(nodes))))
        return nodes[first : first + data.draw(st.integers(1, 8))]


def _is_answer(batch: EventBatch, request: AppendRequest) -> bool:
    identity = (request.writer_id, request.append_seq)
    return (batch.writer_id, batch.append_seq) == identity


def _check_brackets(events: list[JsonObject]) -> None:
    """One bracket at a time, and while one is open it alone replaces, what it summarized."""
    surface, open_id, summarized = SurfaceFold(), None, None
    for event_ in events:
        replacement = surface.apply(event_)
        kind, data = event_["type"], event_["data"]
        assert isinstance(data, dict)
        if kind == "compaction/start":
            assert open_id is None
            open_id, summarized = data["compactionId"], None
        elif kind == "compaction/summary":
            assert (data["compactionId"], summarized) == (open_id, None)
            summarized = data["shadowedSeqs"]
        elif kind in ("compaction/end", "session/end-seed"):
            assert kind == "session/end-seed" or data["compactionId"] == open_id
            open_id = None
        elif replacement is not None and open_id is not None:
            assert data["source"]["compactionId"] == open_id  # type: ignore[index, call-overload]
            assert list(replacement.shadowed) == summarized


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)
