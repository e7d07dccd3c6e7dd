"""A session driven through admission, as the sequencer drives it, for tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from surfacelog.projections.admission import Admitted, Decision, Refused, admit
from surfacelog.projections.fold import fold_log
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.chunk_runs import unpack_items
from surfacelog.schemas.event_types import ROLES, Role
from surfacelog.schemas.records import (
    AppendRequest,
    ChunkRun,
    EventBatch,
    Expectation,
    Item,
    Open,
)

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

HEADER: JsonObject = {"version": 0, "id": "s", "createdAt": 0, "cwd": "/", "delegationDepth": 0}
ALL_ROLES = frozenset(ROLES)


@dataclass
class LiveSession:
    """`state` is what admission sees, `log` the admitted batches, `now` the sequencer's clock."""

    state: SessionState | None = None
    log: list[EventBatch] = field(default_factory=list)
    now: int = 1_700_000_000_000
    sent: dict[str, int] = field(default_factory=dict)

    def ask(self, request: AppendRequest) -> Decision:
        return admit(
            self.state, request, digest_of(request), topic_role_set=ALL_ROLES, now=self.now
        )

    def send(self, request: AppendRequest) -> Decision:
        """Admit and apply; the state that admission saw must be as it was."""
        before = self.state.to_bytes() if self.state is not None else None
        decision = self.ask(request)
        assert before == (self.state.to_bytes() if self.state is not None else None)
        if isinstance(decision, Admitted):
            batch = replace(decision.batch, chain=digest_of(decision.batch) * 2)
            if self.state is None:
                self.state = SessionState.new(batch.session_id)
            assert self.state.apply(batch)
            assert not self.state.apply(batch)
            self.log.append(batch)
            self.sent[batch.writer_id] = batch.append_seq + 1
        return decision

    def request(
        self, writer: str, role: Role, *items: Item, epoch: int | None = None, **more: object
    ) -> AppendRequest:
        """Return a writer's next request; the owner names the session's epoch."""
        current = 0 if self.state is None else self.state.epoch
        return AppendRequest(
            session_id="s",
            writer_id=writer,
            epoch=(current if role == "owner" else 0) if epoch is None else epoch,
            append_seq=self.sent.get(writer, 0),
            attempt=0,
            role=role,
            items=items,
            **more,  # type: ignore[arg-type]  # open and expect, as the test gives them
        )

    def open(
        self, writer: str = "agent", role: Role = "owner", *, loading: bool = False
    ) -> Decision:
        return self.send(self.request(writer, role, open=Open(HEADER, loading)))

    def owner(self, *items: Item, expect: Expectation | None = None) -> Decision:
        return self.send(self.request("agent", "owner", *items, expect=expect))

    def events(self) -> list[JsonObject]:
        """Return the log, event by event."""
        return [e for batch in self.log for e in unpack_items(batch.items, batch.first_seq)]

    def check(self) -> None:
        """The state is what the pure folds make of the log, and what any replay makes of it."""
        assert self.state is not None
        folded, nodes = fold_log(self.events()), self.state.surface.nodes
        assert tuple(node.seq for node in nodes) == folded.nodes
        assert tuple(node.price for node in nodes) == folded.prices
        assert tuple(node.delta for node in nodes) == folded.deltas
        assert self.state.generation == folded.generation
        assert self.state.next_seq == folded.events
        replayed = SessionState.new("s")
        for place, batch in enumerate(self.log):
            assert replayed.apply(batch)
            if place == len(self.log) // 2:
                replayed = SessionState.from_bytes(replayed.to_bytes())
        assert replayed.to_bytes() == self.state.to_bytes()

    def compactor(self, *items: Item, writer: str = "worker") -> Decision:
        return self.send(self.request(writer, "compactor", *items))

    def contributor(self, *items: Item, writer: str = "peer") -> Decision:
        return self.send(self.request(writer, "contributor", *items))


def digest_of(value: object) -> bytes:
    if isinstance(value, AppendRequest):
        value = replace(value, attempt=0)
    return blake2b(repr(value).encode(), digest_size=8).digest()


def refused(decision: Decision) -> tuple[str, int | None]:
    assert isinstance(decision, Refused), decision
    assert len(decision.message) > 20
    return decision.code, decision.event_index


def admitted(decision: Decision) -> EventBatch:
    assert isinstance(decision, Admitted), decision
    return decision.batch


def event(kind: str, data: JsonValue, **members: JsonValue) -> JsonObject:
    return {"type": kind, "time": 1_700_000_000_000, "data": data, **members}


def turn_start(turn: int = 1) -> JsonObject:
    return event("turn/start", {"turn": turn})


def turn_end(turn: int = 1) -> JsonObject:
    return event("turn/end", {"turn": turn, "reason": {"kind": "completed"}})


def step_start(step: int = 1, turn: int = 1) -> JsonObject:
    return event("step/start", {"turn": turn, "step": step})


def step_end(step: int = 1, turn: int = 1) -> JsonObject:
    return event("step/end", {"turn": turn, "step": step})


def user(text: str = "hello", op: JsonValue = "append", **members: JsonValue) -> JsonObject:
    message: JsonObject = {
        "id": "u",
        "role": "user",
        "content": [{"type": "text", "text": text}],
        "source": {"kind": "user"},
    }
    return event("user/message", message, **members, surfaceOp=op)


def assistant(*calls: str, turn: int = 1, step: int = 1, **members: JsonValue) -> JsonObject:
    blocks: list[JsonValue] = [{"type": "text", "text": "let me see"}]
    blocks += [{"type": "tool-call", "id": c, "name": "bash", "arguments": "{}"} for c in calls]
    message: JsonObject = {
        "id": "a",
        "role": "assistant",
        "content": blocks,
        "source": {"kind": "model", "provider": "p", "model": "m"},
    }
    data: JsonObject = {"turn": turn, "step": step, "message": message}
    return event("assistant/message", data, **{"surfaceOp": "append", **members})


def call(call_id: str, turn: int = 1, step: int = 1) -> JsonObject:
    data: JsonObject = {"turn": turn, "step": step, "callId": call_id, "name": "bash"}
    return event("tool/call", {**data, "arguments": "{}"})


def result(
    call_id: str,
    text: str = "done",
    *,
    op: JsonValue = "append",
    error: str | None = None,
    turn: int = 1,
    step: int = 1,
    **members: JsonValue,
) -> JsonObject:
    block: JsonObject = {
        "type": "tool-result",
        "toolCallId": call_id,
        "content": [{"type": "text", "text": text}],
    }
    message: JsonObject = {
        "id": f"r-{call_id}",
        "role": "user",
        "content": [block],
        "source": {"kind": "tool", "callId": call_id},
    }
    data: JsonObject = {"turn": turn, "step": step, "message": message}
    if error is not None:
        data["error"] = {"name": "E", "code": error}
    return event("tool/result", data, **members, surfaceOp=op)


def span(start: int, end: int) -> JsonObject:
    return {"op": "replace", "start": start, "end": end}


def run(*deltas: str, turn: int = 1, step: int = 1) -> ChunkRun:
    return ChunkRun(
        time=1_700_000_000_000,
        turn=turn,
        step=step,
        index=0,
        kind="text",
        dt=(5,) * (len(deltas) - 1),
        deltas=deltas,
    )


def posted(text: str = "psst") -> JsonObject:
    return event("surfacelog/inbox-posted", {"text": text}, ignorable=True)


def compaction_start(compaction_id: str = "c1", **more: JsonValue) -> JsonObject:
    return event("compaction/start", {"compactionId": compaction_id, "turn": None, **more})


def summary(seqs: list[int], compaction_id: str = "c1", **more: JsonValue) -> JsonObject:
    data: JsonObject = {
        "compactionId": compaction_id,
        "summary": [{"type": "text", "text": "short"}],
        "shadowedRange": {"start": seqs[0], "end": seqs[-1]} if seqs else {"start": 0, "end": 0},
        "shadowedSeqs": list(seqs),
        "shadowedTokenCount": 9,
        "provider": "p",
        "model": "m",
    }
    return event("compaction/summary", {**data, **more})


def checkpoint(
    seqs: list[int], compaction_id: str = "c1", cites: list[int] | None = None, **source: JsonValue
) -> JsonObject:
    message: JsonObject = {
        "id": "k",
        "role": "user",
        "content": [{"type": "text", "text": "short"}],
        "source": {
            "kind": "plugin",
            "plugin": "compact",
            "compactionId": compaction_id,
            **source,
        },
    }
    return event(
        "user/message",
        message,
        sourceEventSeqs=[*(cites or []), *seqs],
        surfaceOp=span(seqs[0], seqs[-1]),
    )


def receipt() -> JsonObject:
    return event("surfacelog/compaction-receipt", {"count": 1}, ignorable=True)


def compaction_end(compaction_id: str = "c1", **more: JsonValue) -> JsonObject:
    return event("compaction/end", {"compactionId": compaction_id, "turn": None, **more})


def prune(seq: int) -> JsonObject:
    data: JsonObject = {
        "shadowedRange": {"start": seq, "end": seq},
        "shadowedSeqs": [seq],
        "shadowedTokenCount": 9,
    }
    return event("compaction/prune", data)
