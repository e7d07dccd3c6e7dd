"""Crash closers: the events that end a turn whose writer died in it (SEMANTICS 8).

A provider refuses a conversation with an unanswered tool call, so every pending call gets an
error result first; then the open step and the turn are ended. Nothing is known of when the
writer died: all closers have the time of the last event that it wrote. A pure function of the
log, so every reader makes the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Final, NamedTuple

from surfacelog.projections.messages import tool_call_blocks
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_text import js_dumps, text_or_json
from surfacelog.schemas.json_value import is_number, is_safe_integer, member, says_null

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from surfacelog.schemas.json_value import JsonObject, JsonValue

NOT_STARTED_TEXT: Final = (
    "The tool call was interrupted before it was started. Make it again if it is still needed."
)
UNKNOWN_TEXT: Final = (
    "The tool call was interrupted after it was started and its result was not recorded: its"
    " outcome is unknown. Repeat it only if it is read-only or idempotent; otherwise find out"
    " first what it has done."
)


class OpenCall(NamedTuple):
    """A tool call without a result. `seq` is its tool/call's; None when it was not started."""

    call_id: JsonValue
    step: JsonValue
    seq: int | None = None


@dataclass(slots=True)
class OpenTurn:
    """What is open at the end of a log: the turn, its step if any, the calls by id, in order.

    `turn` and `step` are None where the event that opened it named none. The keys of `calls` are
    the ids as JSON text.
    """

    turn: JsonValue
    step: JsonValue = None
    in_step: bool = False
    calls: dict[str, OpenCall] = field(default_factory=dict)

    def copy(self) -> OpenTurn:
        """Return an independent copy."""
        return OpenTurn(self.turn, self.step, self.in_step, self.calls.copy())


def crash_closers(events: Iterable[JsonValue]) -> list[JsonObject]:
    """Return the closers that follow the log, with seqs; none when no turn is open.

    Compaction brackets are not closed. Raises CorruptLogError for events too malformed to tell
    what is open. Where the last event has no time, or no number for a seq, the closers have none
    either (their seq is NaN): whoever checks that log refuses it.
    """
    open_turn: OpenTurn | None = None
    last: JsonObject = {}
    for event in events:
        if event is None:
            raise CorruptLogError("an event is null")
        if not isinstance(event, dict):
            last = {}
            continue
        last = event
        _check_shape(event)
        seq = event.get("seq")
        open_turn = advance_turn(open_turn, event, seq if isinstance(seq, int) else None)
    if open_turn is None:
        return []
    closers = turn_closers(open_turn, _number(last.get("seq")) + 1, last.get("time"))
    if "time" not in last:
        for closer in closers:
            del closer["time"]
    return closers


def advance_turn(turn: OpenTurn | None, event: JsonObject, seq: int | None) -> OpenTurn | None:
    """Return what is open after one more event, the one at `seq`; `turn` may be changed."""
    kind = event.get("type")
    if kind == "turn/start":
        data = event.get("data")  # what says null opens nothing
        return None if says_null(data, "turn") else OpenTurn(member(data, "turn"))
    if kind == "turn/end":
        return None
    effect = _EFFECTS.get(kind) if isinstance(kind, str) else None
    if turn is not None and effect is not None:
        effect(turn, event.get("data"), seq)
    return turn


def turn_closers(turn: OpenTurn, seq: float, time: JsonValue) -> list[JsonObject]:
    """Return the events, from `seq` on, that close the turn; `time` is the log's last event's."""
    closers: list[JsonObject] = []
    for call in turn.calls.values():
        closers.append(_error_result(turn, call, seq + len(closers), time))
    if turn.in_step:
        closers.append(_event("step/end", seq + len(closers), time, _place(turn, turn.step)))
    data: JsonObject = {**_place(turn), "reason": {"kind": "interrupted"}}
    closers.append(_event("turn/end", seq + len(closers), time, data))
    return closers


def _start_step(turn: OpenTurn, data: JsonValue, _seq: int | None) -> None:
    turn.step = member(data, "step")
    turn.in_step = not says_null(data, "step")


def _end_step(turn: OpenTurn, _data: JsonValue, _seq: int | None) -> None:
    turn.step, turn.in_step = None, False
    turn.calls.clear()


def _add_calls(turn: OpenTurn, data: JsonValue, _seq: int | None) -> None:
    message = member(data, "message")
    for block in tool_call_blocks(message if isinstance(message, dict) else {}):
        call_id = block.get("id")
        turn.calls[js_dumps(call_id)] = OpenCall(call_id, member(data, "step"))


def _start_call(turn: OpenTurn, data: JsonValue, seq: int | None) -> None:
    key = js_dumps(member(data, "callId"))
    if key in turn.calls and seq is not None:
        turn.calls[key] = turn.calls[key]._replace(seq=seq)


def _answer_call(turn: OpenTurn, data: JsonValue, _seq: int | None) -> None:
    source = member(member(data, "message"), "source")
    turn.calls.pop(js_dumps(member(source, "callId")), None)


def _check_shape(event: JsonObject) -> None:
    """Refuse an event that does not say what it opens or closes, outside a turn too."""
    kind, data = event.get("type"), event.get("data")
    if kind in ("turn/start", "step/start", "tool/call") and data is None:
        raise _malformed(event, "data")
    if kind not in ("assistant/message", "tool/result"):
        return
    message = member(data, "message")
    if message is None:
        raise _malformed(event, "message")
    if kind == "tool/result" and member(message, "source") is None:
        raise _malformed(event, "source")
    if kind == "assistant/message":
        content = member(message, "content")
        if not isinstance(content, str) and (not isinstance(content, list) or None in content):
            raise _malformed(event, "list of blocks")


def _malformed(event: JsonObject, missing: str) -> CorruptLogError:
    return CorruptLogError(f"the {event.get('type')} at seq {event.get('seq')} has no {missing}")


def _place(turn: OpenTurn, step: JsonValue = None) -> JsonObject:
    """Return the turn and the step, each where it has a number."""
    named: JsonObject = {"turn": turn.turn, "step": step}
    return {name: number for name, number in named.items() if number is not None}


def _number(seq: JsonValue) -> float:
    if is_safe_integer(seq):
        return int(seq)  # type: ignore[arg-type]  # a whole number
    return float(seq) if is_number(seq) else nan  # type: ignore[arg-type]  # a number


def _error_result(turn: OpenTurn, call: OpenCall, seq: float, time: JsonValue) -> JsonObject:
    started = call.seq is not None
    text = UNKNOWN_TEXT if started else NOT_STARTED_TEXT
    block: JsonObject = {"type": "tool-result", "toolCallId": call.call_id, "isError": True}
    block["content"] = [{"type": "text", "text": text}]
    message: JsonObject = {
        "id": f"interrupted-tool-result-{text_or_json(call.call_id)}-{seq}",
        "role": "user",
        "source": {"kind": "tool", "callId": call.call_id},
        "content": [block],
    }
    error: JsonObject = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
    if started:
        error = {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
    data: JsonObject = {**_place(turn, call.step), "message": message, "error": error}
    event = _event("tool/result", seq, time, data)
    if started:
        event["sourceEventSeqs"] = [call.seq]
    event["surfaceOp"] = "append"
    return event


def _event(kind: str, seq: float, time: JsonValue, data: JsonObject) -> JsonObject:
    return {"type": kind, "seq": seq, "time": time, "data": data}


_EFFECTS: Final[dict[str, Callable[[OpenTurn, JsonValue, int | None], None]]] = {
    "step/start": _start_step,
    "step/end": _end_step,
    "assistant/message": _add_calls,
    "tool/call": _start_call,
    "tool/result": _answer_call,
}
