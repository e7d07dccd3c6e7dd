"""The relations that live writers keep between the events of a session (SEMANTICS 3).

Turns count 1, 2, ... without nesting, steps 1, 2, ... inside each; what belongs to a step names
the open one; a tool result answers a call of its step. The sequencer has its own, stricter form
of these (`agent_loop`); this one judges whole logs, wherever they come from.
"""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Final

from surfacelog.projections.invariants import InvariantError, check_trace, data_of, names
from surfacelog.schemas.json_text import js_dumps
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue


def check_session_invariants(events: Sequence[JsonValue], *, live: bool = False) -> None:
    """Raise InvariantError for the first event that breaks a relation.

    A live session takes no events that are texts or numbers; in a stored log they relate to
    nothing and are for other checks to find.
    """
    check_trace(SessionTrace(), events)
    if live and not all(isinstance(event, dict | list) for event in events):
        raise InvariantError("an event is no object")


class SessionTrace:
    """Where the agent loop stands after the events taken so far."""

    def __init__(self) -> None:
        self._last_seq: float = -1
        self._turn: int | None = None
        self._step: int | None = None
        self._next_turn = 1
        self._next_step = 1
        self._pending: set[str] = set()

    def take(self, event: JsonObject) -> None:
        """Judge an event and take it in; InvariantError leaves the trace as it was."""
        seq = _place(event.get("seq", nan))
        if seq <= self._last_seq:
            raise InvariantError(f"seqs increase: {seq} after {self._last_seq}")
        kind = event.get("type")
        rule = _RULES.get(kind) if isinstance(kind, str) else None
        if rule is not None:
            rule(self, event)
        self._last_seq = seq

    def _turn_start(self, event: JsonObject) -> None:
        if self._turn is not None:
            raise InvariantError(f"turn/start while turn {self._turn} is open")
        if not names(data_of(event), "turn", self._next_turn):
            raise InvariantError(f"the next turn is {self._next_turn}")
        self._turn, self._next_step = self._next_turn, 1

    def _turn_end(self, event: JsonObject) -> None:
        if not names(data_of(event), "turn", self._turn):
            raise InvariantError(f"turn/end names another turn than the open one, {self._turn}")
        if self._step is not None:
            raise InvariantError(f"turn/end while step {self._step} is open")
        self._turn = None
        self._next_turn += 1

    def _step_start(self, event: JsonObject) -> None:
        data = data_of(event)
        if not names(data, "turn", self._turn):
            raise InvariantError(f"step/start names another turn than the open one, {self._turn}")
        if self._step is not None:
            raise InvariantError(f"step/start while step {self._step} is open")
        if not names(data, "step", self._next_step):
            raise InvariantError(f"the next step is {self._next_step}")
        self._step = self._next_step

    def _step_end(self, event: JsonObject) -> None:
        self._in_step(event)
        self._pending.clear()
        self._step = None
        self._next_step += 1

    def _in_step(self, event: JsonObject) -> None:
        data = data_of(event)
        if not names(data, "turn", self._turn) or not names(data, "step", self._step):
            raise InvariantError(
                f"{event.get('type')} names another place than turn {self._turn}, step {self._step}"
            )

    def _in_turn(self, event: JsonObject) -> None:
        if self._turn is None:
            raise InvariantError(f"{event.get('type')} outside any turn")

    def _tool_call(self, event: JsonObject) -> None:
        self._in_step(event)
        self._pending.add(js_dumps(data_of(event).get("callId")))

    def _tool_result(self, event: JsonObject) -> None:
        if event.get("surfaceOp") != "append":
            self._in_turn(event)
            return
        self._in_step(event)
        data = data_of(event)
        message = data.get("message")
        source = member(message, "source")
        content = member(message, "content")
        block = content[0] if isinstance(content, list | str) and content else None
        if source is None or block is None:
            raise InvariantError("a tool/result has a message with a source and a block")
        call = js_dumps(member(source, "callId"))
        not_started = member(data.get("error"), "code") == "TOOL_NOT_STARTED"
        if call not in self._pending and not (not_started and member(block, "isError") is True):
            raise InvariantError(f"a result for {call}, which is not pending in this step")
        self._pending.discard(call)


def _place(seq: JsonValue) -> float:
    """Return what a seq counts: null and booleans as JavaScript has them.

    NaN for what is no number: it cannot be compared, and neither can the next one with it.
    """
    return seq or 0 if seq is None or isinstance(seq, int | float) else nan


_RULES: Final[dict[str, Callable[[SessionTrace, JsonObject], None]]] = {
    "turn/start": SessionTrace._turn_start,
    "turn/end": SessionTrace._turn_end,
    "step/start": SessionTrace._step_start,
    "step/end": SessionTrace._step_end,
    "assistant/chunk": SessionTrace._in_step,
    "assistant/message": SessionTrace._in_step,
    "tool/call": SessionTrace._tool_call,
    "tool/result": SessionTrace._tool_result,
    "todo/write": SessionTrace._in_turn,
    "request/header": SessionTrace._in_turn,
    "request/context": SessionTrace._in_turn,
}
