"""Where the agent loop of a session stands: open turn and step, calls, unanswered blocks.

`advance` folds any history; `check` says beforehand what a live session refuses (the session
invariants of SEMANTICS 3 and the stricter live pairing of DESIGN 4). Imported history is only
folded: it may break rules that a live writer must keep.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from surfacelog.projections.closers import OpenCall, OpenTurn, advance_turn
from surfacelog.projections.messages import message_of, tool_call_blocks
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.json_text import dumps, js_dumps, loads, text_or_json
from surfacelog.schemas.json_value import (
    list_member,
    member,
    object_member,
    text_member,
    whole_member,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from surfacelog.schemas.json_value import JsonObject, JsonValue

NOT_STARTED: Final = "TOOL_NOT_STARTED"


class AgentLoop:
    """Open turn and step (None when closed) and the last numbers, which the next ones follow.

    `pending` maps the id of each unanswered tool/call of the open step to its seq; `unanswered`
    lists the ids of the tool-call blocks of the open step that no tool/result has answered, in
    order. `is_live` says that the open turn was not imported.
    """

    __slots__ = (
        "_opened",
        "is_live",
        "last_step",
        "last_turn",
        "pending",
        "step",
        "turn",
        "unanswered",
    )

    def __init__(self) -> None:
        self.turn: int | None = None
        self.step: int | None = None
        self.last_turn = 0
        self.last_step = 0
        self.pending: dict[str, int] = {}
        self.unanswered: list[str] = []
        self.is_live = True
        # The same as the crash closers see it: imported turns may hold what no live one does.
        self._opened: OpenTurn | None = None

    def copy(self) -> AgentLoop:
        """Return an independent copy."""
        copy = AgentLoop()
        copy.turn, copy.step = self.turn, self.step
        copy.last_turn, copy.last_step = self.last_turn, self.last_step
        copy.pending, copy.unanswered = self.pending.copy(), self.unanswered.copy()
        copy.is_live = self.is_live
        copy._opened = None if self._opened is None else self._opened.copy()
        return copy

    def to_json(self) -> JsonValue:
        """Return a compact form for snapshots."""
        pending: JsonObject = dict(self.pending)
        unanswered: list[JsonValue] = list(self.unanswered)
        numbers: list[JsonValue] = [self.turn, self.step, self.last_turn, self.last_step]
        opened = None if self._opened is None else _opened_text(self._opened)
        return [*numbers, pending, unanswered, self.is_live, opened]

    @classmethod
    def from_json(cls, value: Any) -> AgentLoop:
        """Return what `to_json` was given."""
        loop = cls()
        loop.turn, loop.step, loop.last_turn, loop.last_step, *more = value
        loop.pending, loop.unanswered, loop.is_live, opened = more
        loop._opened = None if opened is None else _opened_from(opened)
        return loop

    def open_turn(self) -> OpenTurn | None:
        """Return what crash closers have to close, None when no turn is open.

        Of a live turn every unanswered block, so that the surface can be cut again: also where
        two have one id, or where an older result of that id was pruned meanwhile, of which the
        plain closers of a log know nothing.
        """
        if self._opened is None:
            return None
        found = self._opened.copy()
        for number, call_id in enumerate(self._overlooked()):
            call = OpenCall(call_id, found.step, self.pending.get(call_id))
            found.calls[f"{number} {call_id}"] = call
        return found

    def _overlooked(self) -> Iterator[str]:
        assert self._opened is not None  # only asked then
        known = Counter(text_or_json(call.call_id) for call in self._opened.calls.values())
        return (Counter(self.unanswered if self.is_live else ()) - known).elements()

    def check(self, event: JsonObject) -> None:
        """Raise AdmissionError `turn`, `step` or `pairing` when a live session refuses it."""
        rule = _CHECKS.get(str(event["type"]))
        if rule is not None:
            rule(self, event)

    def advance(self, event: JsonObject, seq: int, *, live: bool) -> None:
        """Fold one event of the log, whether or not a live session would have admitted it.

        `live` False says that an importer wrote it.
        """
        effect = _EFFECTS.get(str(event["type"]))
        if effect is not None:
            effect(self, event, seq)
            self._opened = advance_turn(self._opened, event, seq)
            if event["type"] == "turn/start":
                self.is_live = live

    def check_place(self, turn: JsonValue, step: JsonValue, what: str) -> None:
        """Refuse what names another turn or step than the open one."""
        if turn != self.turn or self.turn is None:
            raise AdmissionError(
                "turn", f"{what} names turn {turn!r}; the open turn is {self.turn}: name that one"
            )
        if step != self.step or self.step is None:
            raise AdmissionError(
                "step", f"{what} names step {step!r}; the open step is {self.step}: name that one"
            )

    def _check_turn_start(self, event: JsonObject) -> None:
        number = whole_member(event["data"], "turn")
        if self.turn is not None:
            raise AdmissionError(
                "turn", f"turn/start {number} inside turn {self.turn}: end that turn first"
            )
        if number != self.last_turn + 1:
            raise AdmissionError(
                "turn", f"turn/start {number}: turns are counted, the next is {self.last_turn + 1}"
            )

    def _check_turn_end(self, event: JsonObject) -> None:
        self._check_open_turn(event)
        if whole_member(event["data"], "turn") != self.turn:
            raise AdmissionError(
                "turn", f"turn/end of another turn than the open one, {self.turn}: name that one"
            )
        if self.step is not None:
            raise AdmissionError(
                "step", f"turn/end while step {self.step} is open: end the step first"
            )

    def _check_step_start(self, event: JsonObject) -> None:
        self._check_open_turn(event)
        turn, number = whole_member(event["data"], "turn"), whole_member(event["data"], "step")
        if turn != self.turn:
            raise AdmissionError(
                "turn", f"step/start names turn {turn}; the open turn is {self.turn}: name that one"
            )
        if self.step is not None:
            raise AdmissionError(
                "step", f"step/start {number} inside step {self.step}: end that step first"
            )
        if number != self.last_step + 1:
            raise AdmissionError(
                "step", f"step/start {number}: steps are counted, the next is {self.last_step + 1}"
            )

    def _check_step_end(self, event: JsonObject) -> None:
        self._check_in_step(event)
        self._check_answered(event)

    def _check_in_step(self, event: JsonObject) -> None:
        data = event["data"]
        self.check_place(whole_member(data, "turn"), whole_member(data, "step"), str(event["type"]))

    def _check_response(self, event: JsonObject) -> None:
        self._check_in_step(event)
        for block in tool_call_blocks(message_of(event)):
            if not text_member(block, "id"):
                raise AdmissionError(
                    "pairing",
                    "a tool-call block without an id, which no tool/result could answer: name it",
                )

    def _check_open_turn(self, event: JsonObject) -> None:
        if self.turn is None:
            raise AdmissionError("turn", f"{event['type']} outside any turn: start a turn first")

    def _check_user_message(self, event: JsonObject) -> None:
        if event.get("surfaceOp") == "append":
            self._check_answered(event)

    def _check_answered(self, event: JsonObject) -> None:
        if self.unanswered:
            raise AdmissionError(
                "pairing",
                f"{event['type']} while tool calls wait for their results"
                f" ({_listed(self.unanswered)}): append those tool/result events first",
            )

    def _check_tool_result(self, event: JsonObject) -> None:
        if event.get("surfaceOp") != "append":
            return
        self._check_in_step(event)
        call_id = result_call_id(event)
        if call_id not in self.unanswered:
            raise AdmissionError(
                "pairing",
                f"tool/result for {call_id!r}, which no unanswered tool-call block of this step"
                f" has ({_listed(self.unanswered)}): append the assistant/message first",
            )
        if call_id not in self.pending and not _not_started(event):
            raise AdmissionError(
                "pairing",
                f"tool/result for {call_id!r} without a tool/call in this step: append the"
                f" tool/call first, or answer with the error code {NOT_STARTED}",
            )

    def _start_turn(self, event: JsonObject, _seq: int) -> None:
        self.turn = self.last_turn = whole_member(event["data"], "turn") or 0
        self.last_step = 0
        self._leave_step()

    def _end_turn(self, _event: JsonObject, _seq: int) -> None:
        self.turn = None
        self._leave_step()

    def _start_step(self, event: JsonObject, _seq: int) -> None:
        self._leave_step()
        self.step = self.last_step = whole_member(event["data"], "step") or 0

    def _end_step(self, _event: JsonObject, _seq: int) -> None:
        self._leave_step()

    def _leave_step(self) -> None:
        self.step = None
        self.pending.clear()
        self.unanswered.clear()

    def _add_blocks(self, event: JsonObject, _seq: int) -> None:
        if event.get("surfaceOp") == "append" and self.turn is not None:
            self.unanswered += [
                text_or_json(block.get("id")) for block in tool_call_blocks(message_of(event))
            ]

    def _add_call(self, event: JsonObject, seq: int) -> None:
        call_id = text_member(event["data"], "callId")
        if call_id is not None:
            self.pending[call_id] = seq

    def _answer(self, event: JsonObject, _seq: int) -> None:
        if event.get("surfaceOp") != "append":
            return
        call_id = result_call_id(event)
        if call_id is not None:
            self.pending.pop(call_id, None)
            if call_id in self.unanswered:
                self.unanswered.remove(call_id)


def result_call_id(event: JsonObject) -> str | None:
    """Return the call that a tool/result answers."""
    return text_member(object_member(message_of(event), "source"), "callId")


def _opened_text(opened: OpenTurn) -> str:
    """Return it as JSON text: what is imported may be of any depth."""
    calls: list[JsonValue] = [list(call) for call in opened.calls.values()]
    # Only imports hold an open step without a number: a member that snapshots have just then.
    nameless: list[JsonValue] = [True] if opened.in_step and opened.step is None else []
    return dumps([opened.turn, opened.step, calls, *nameless])


def _opened_from(text: str) -> OpenTurn:
    opened: Any = loads(text)
    turn, step, calls, *nameless = opened
    in_step = step is not None or bool(nameless)
    return OpenTurn(turn, step, in_step, {js_dumps(call[0]): OpenCall(*call) for call in calls})


def _not_started(event: JsonObject) -> bool:
    code = object_member(event["data"], "error").get("code")
    blocks = list_member(message_of(event), "content")
    return code == NOT_STARTED and any(member(block, "isError") is True for block in blocks)


def _listed(call_ids: list[str]) -> str:
    return ", ".join(call_ids) or "none"


_CHECKS: Final[dict[str, Callable[[AgentLoop, JsonObject], None]]] = {
    "turn/start": AgentLoop._check_turn_start,
    "turn/end": AgentLoop._check_turn_end,
    "step/start": AgentLoop._check_step_start,
    "step/end": AgentLoop._check_step_end,
    "assistant/chunk": AgentLoop._check_in_step,
    "assistant/message": AgentLoop._check_response,
    "tool/call": AgentLoop._check_in_step,
    "tool/result": AgentLoop._check_tool_result,
    "user/message": AgentLoop._check_user_message,
    "todo/write": AgentLoop._check_open_turn,
    "request/header": AgentLoop._check_open_turn,
    "request/context": AgentLoop._check_open_turn,
}

_EFFECTS: Final[dict[str, Callable[[AgentLoop, JsonObject, int], None]]] = {
    "turn/start": AgentLoop._start_turn,
    "turn/end": AgentLoop._end_turn,
    "step/start": AgentLoop._start_step,
    "step/end": AgentLoop._end_step,
    "assistant/message": AgentLoop._add_blocks,
    "tool/call": AgentLoop._add_call,
    "tool/result": AgentLoop._answer,
}
