"""Crash closers: the events that end a turn whose writer died in it (SEMANTICS 8).

A provider refuses a conversation with an unanswered tool call, so every pending call gets an
error result first; then the open step and the turn are ended. Nothing is known of when the
writer died: all closers have the time of the last event that it wrote. A pure function of the
log, so every reader makes the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from surfacelog.projections.messages import tool_call_blocks
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_text import js_dumps
from surfacelog.schemas.json_value import is_safe_integer, member

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.schemas.json_value import JsonObject, JsonValue

NOT_STARTED_TEXT: Final = (
    "The tool call was interrupted before it was started. Make it again if it is still needed."
)
UNKNOWN_TEXT: Final = (
    "The tool call was interrupted after it was started and its result was not recorded: its"
    " outcome is unknown. Repeat it only if it is read-only or idempotent; otherwise find out"
    " first what it has done."
)


@dataclass(slots=True)
class OpenCall:
    """A tool call without a result. `seq` is its tool/call's; None when it was not started."""

    call_id: JsonValue
    step: JsonValue
    seq: int | None = None


@dataclass(slots=True)
class OpenTurn:
    """What is open at the end of a log: the turn, its step if any, the calls by id, in order."""

    turn: JsonValue
    step: JsonValue = None
    calls: dict[str, OpenCall] = field(default_factory=dict)


def crash_closers(events: Iterable[JsonValue]) -> list[JsonObject]:
    """Return the closers that follow the log, with seqs; none when no turn is open.

    Compaction brackets are not closed. Raises CorruptLogError for events too malformed to tell
    what is open.
    """
    open_turn: OpenTurn | None = None
    last: JsonObject = {}
    for event in events:
        if not isinstance(event, dict):
            if event is None:
                raise CorruptLogError("an event is null")
            continue
        last = event
        kind = event.get("type")
        if kind == "turn/start":
            open_turn = OpenTurn(_member(event, "turn"))
        elif kind == "turn/end":
            open_turn = None
        else:
            open_turn = _advance(open_turn, event)
    if open_turn is None:
        return []
    last_seq = last.get("seq")
    if not is_safe_integer(last_seq):
        raise CorruptLogError("the last event has no seq: nothing can follow it")
    return turn_closers(open_turn, int(last_seq) + 1, last.get("time"))  # type: ignore[arg-type]  # a number


def turn_closers(turn: OpenTurn, seq: int, time: JsonValue) -> list[JsonObject]:
    """Return the events, from `seq` on, that close the turn; `time` is the log's last event's."""
    closers: list[JsonObject] = []
    for call in turn.calls.values():
        closers.append(_error_result(turn, call, seq + len(closers), time))
    if turn.step is not None:
        data: JsonObject = {"turn": turn.turn, "step": turn.step}
        closers.append(_event("step/end", seq + len(closers), time, data))
    data = {"turn": turn.turn, "reason": {"kind": "interrupted"}}
    closers.append(_event("turn/end", seq + len(closers), time, data))
    return closers


def _advance(turn: OpenTurn | None, event: JsonObject) -> OpenTurn | None:
    """Fold an event; outside a turn too, where calls and steps are lost but must make sense."""
    state = turn or OpenTurn(None)
    kind = event.get("type")
    if kind == "step/start":
        state.step = _member(event, "step")
    elif kind == "step/end":
        state.step = None
        state.calls.clear()
    elif kind == "assistant/message":
        _add_calls(state, event)
    elif kind == "tool/call":
        call = state.calls.get(js_dumps(_member(event, "callId")))
        if call is not None and isinstance(event.get("seq"), int):
            call.seq = event["seq"]  # type: ignore[assignment]  # an integer: just checked
    elif kind == "tool/result":
        source = member(_message(event), "source")
        if source is None:
            raise CorruptLogError(f"the tool/result at seq {event.get('seq')} has no source")
        state.calls.pop(js_dumps(member(source, "callId")), None)
    return turn


def _add_calls(state: OpenTurn, event: JsonObject) -> None:
    message = _message(event)
    content = member(message, "content")
    if not isinstance(message, dict) or not isinstance(content, list | str) or None in content:
        raise CorruptLogError(f"the assistant/message at seq {event.get('seq')} has no blocks")
    for block in tool_call_blocks(message):
        call_id = block.get("id")
        key = js_dumps(call_id)
        call = state.calls.setdefault(key, OpenCall(call_id, None))
        call.step, call.seq = _member(event, "step"), None


def _message(event: JsonObject) -> JsonValue:
    message = _member(event, "message")
    if message is None:
        raise CorruptLogError(f"the {event.get('type')} at seq {event.get('seq')} has no message")
    return message


def _member(event: JsonObject, name: str) -> JsonValue:
    data = event.get("data")
    if data is None:
        raise CorruptLogError(f"the {event.get('type')} at seq {event.get('seq')} has no data")
    return member(data, name)


def _error_result(turn: OpenTurn, call: OpenCall, seq: int, time: JsonValue) -> JsonObject:
    started = call.seq is not None
    text = UNKNOWN_TEXT if started else NOT_STARTED_TEXT
    block: JsonObject = {"type": "tool-result", "toolCallId": call.call_id, "isError": True}
    block["content"] = [{"type": "text", "text": text}]
    message: JsonObject = {
        "id": f"interrupted-tool-result-{call.call_id}-{seq}",
        "role": "user",
        "source": {"kind": "tool", "callId": call.call_id},
        "content": [block],
    }
    error: JsonObject = {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
    if started:
        error = {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
    data: JsonObject = {"turn": turn.turn, "step": call.step, "message": message, "error": error}
    event = _event("tool/result", seq, time, data)
    if started:
        event["sourceEventSeqs"] = [call.seq]
    event["surfaceOp"] = "append"
    return event


def _event(kind: str, seq: int, time: JsonValue, data: JsonObject) -> JsonObject:
    return {"type": kind, "seq": seq, "time": time, "data": data}
