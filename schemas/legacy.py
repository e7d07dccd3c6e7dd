"""Events of older writers of format version 0, brought to today's shapes (SEMANTICS 3, "load").

Messages had no identity once, assistant and tool results were not wrapped, turns had triggers
and bare end reasons, and steering was a type of its own. Whatever only looks like one of these
is left alone: the checks that follow refuse it as what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_value import is_safe_integer, member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue

_BARE_REASONS: Final = frozenset({"completed", "blocked", "max-tokens", "interrupted"})
_FAILURE_MEMBERS: Final = {"message", "code", "status", "providerRetryAfterMs", "requestId"}


class LegacyUpgrade:
    """Upgrades the events of one session, in order; identities are minted from its id and seq."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._message_ids: dict[JsonValue, str] = {}

    def upgrade(self, event: JsonObject) -> JsonObject:
        """Return the event in today's shape: the same object when it has it already.

        Raises CorruptLogError for an old turn boundary or steering message that is malformed.
        """
        kind = event.get("type")
        upgrade = _UPGRADES.get(kind) if isinstance(kind, str) else None
        if upgrade is not None:
            event = upgrade(self, event)
        self._remember(event)
        return event

    def _remember(self, event: JsonObject) -> None:
        data, seq = event.get("data"), event.get("seq")
        message = data if event.get("type") == "user/message" else member(data, "message")
        message_id = member(message, "id")
        if isinstance(message_id, str) and isinstance(seq, int | float):
            self._message_ids[seq] = message_id

    def _new_id(self, event: JsonObject) -> str:
        return f"legacy-message:{self._session_id}:{event.get('seq')}"

    def _user_message(self, event: JsonObject) -> JsonObject:
        data = event.get("data")
        if not isinstance(data, dict) or data.keys() & {"id", "role", "message"}:
            return event
        if not data.keys() >= {"content", "source"}:
            return event
        return {**event, "data": {**data, "id": self._new_id(event), "role": "user"}}

    def _assistant_message(self, event: JsonObject) -> JsonObject:
        data = event.get("data")
        if not isinstance(data, dict) or "message" in data:
            return event
        if not data.keys() >= {"content", "provenance"}:
            return event
        provenance = data["provenance"]
        source = provenance if isinstance(provenance, dict) else {}
        message: JsonObject = {
            "id": self._new_id(event),
            "role": "assistant",
            "content": data["content"],
            "source": {**source, "kind": "model"},
        }
        return {**event, "data": _with_message(data, {"content", "provenance"}, message)}

    def _tool_result(self, event: JsonObject) -> JsonObject:
        data = event.get("data")
        if not isinstance(data, dict) or "message" in data:
            return event
        if not data.keys() >= {"callId", "content", "isError"}:
            return event
        block: JsonObject = {"type": "tool-result", "toolCallId": data["callId"]}
        block |= {"content": data["content"], "isError": data["isError"]}
        message: JsonObject = {
            "id": self._result_id(event),
            "role": "user",
            "content": [block],
            "source": {"kind": "tool", "callId": data["callId"]},
        }
        return {**event, "data": _with_message(data, {"callId", "content", "isError"}, message)}

    def _result_id(self, event: JsonObject) -> JsonValue:
        """A rewritten result is the same message: it keeps the identity of what it replaces."""
        op = event.get("surfaceOp")
        start = member(op, "start")
        if member(op, "op") == "replace" and is_safe_integer(start):
            return self._message_ids.get(start)
        return self._new_id(event)

    def _steering(self, event: JsonObject) -> JsonObject:
        data = event.get("data")
        if not isinstance(data, dict) or not is_safe_integer(data.get("turn")):
            raise _malformed(event)
        if data.keys() == {"turn", "message"} and isinstance(data["message"], dict):
            return {**event, "type": "user/message", "data": data["message"]}
        if data.keys() != {"turn", "content", "source"}:
            raise _malformed(event)
        message = {name: value for name, value in data.items() if name != "turn"}
        message |= {"id": self._new_id(event), "role": "user"}
        return {**event, "type": "user/message", "data": message}

    def _turn_start(self, event: JsonObject) -> JsonObject:
        data = event.get("data")
        if not isinstance(data, dict) or "trigger" not in data:
            return event
        kind = member(data["trigger"], "kind")
        if not (_is_turn(data) and data.keys() == {"turn", "trigger"} and kind):
            raise _malformed(event)
        if not isinstance(kind, str):
            raise _malformed(event)
        return {**event, "data": {"turn": data["turn"]}}

    def _turn_end(self, event: JsonObject) -> JsonObject:
        data = event.get("data")
        if not isinstance(data, dict):
            return event
        reason = data.get("reason")
        if not (_is_turn(data) and data.keys() == {"turn", "reason"} and isinstance(reason, dict)):
            raise _malformed(event)
        upgraded = _structured_reason(event, reason)
        return event if upgraded is reason else {**event, "data": {**data, "reason": upgraded}}


def upgrade_events(events: Sequence[JsonObject], session_id: str) -> list[JsonObject]:
    """Return the events of a stored log in today's shapes; those that have it are the same.

    Raises CorruptLogError for what has no upgrade: request/header-delta, mode/set, the header
    reason "fallback", and malformed old shapes.
    """
    _refuse_retired(events)
    upgrade = LegacyUpgrade(session_id)
    return [upgrade.upgrade(event) for event in events]


def _refuse_retired(events: Iterable[JsonObject]) -> None:
    for event in events:
        if event.get("type") in ("request/header-delta", "mode/set"):
            raise CorruptLogError(f"{event['type']} at seq {event.get('seq')} is retired")
        if event.get("type") == "request/header":
            if event.get("data") is None:
                raise CorruptLogError(f"request/header at seq {event.get('seq')} has no data")
            if member(event["data"], "reason") == "fallback":
                raise CorruptLogError(f"the header reason at seq {event.get('seq')} is retired")


def _structured_reason(event: JsonObject, reason: JsonObject) -> JsonObject:
    kind = reason.get("kind")
    if not isinstance(kind, str):
        raise _malformed(event)
    structure = _REASONS.get(kind)
    if structure is not None:
        return structure(event, reason)
    if kind in _BARE_REASONS and reason.keys() != {"kind"}:
        raise _malformed(event)
    return reason


def _aborted(event: JsonObject, reason: JsonObject) -> JsonObject:
    if "reason" in reason:
        return reason
    if reason.keys() != {"kind"}:
        raise _malformed(event)
    return {"kind": "aborted", "reason": {"kind": "legacy"}}


def _disposed(event: JsonObject, reason: JsonObject) -> JsonObject:
    if reason.keys() != {"kind"}:
        raise _malformed(event)
    return {"kind": "aborted", "reason": {"kind": "disposed"}}


def _error(event: JsonObject, reason: JsonObject) -> JsonObject:
    if "error" in reason:
        return reason
    step = reason.get("step")
    if not is_safe_integer(step) or step < 0:  # type: ignore[operator]  # a number: checked
        raise _malformed(event)
    failure = reason.get("failure")
    if isinstance(failure, dict) and reason.keys() == {"kind", "step", "failure"}:
        if _is_failure(failure):
            return {"kind": "error", "error": failure}
        raise _malformed(event)
    code = reason.get("code", "UNKNOWN")
    if reason.keys() - {"code"} != {"kind", "step", "message"}:
        raise _malformed(event)
    if not isinstance(reason["message"], str) or not isinstance(code, str):
        raise _malformed(event)
    return {"kind": "error", "error": {"message": reason["message"], "code": code}}


def _is_failure(failure: JsonObject) -> bool:
    texts = ("message", "code", *({"requestId"} & failure.keys()))
    numbers = {"status", "providerRetryAfterMs"} & failure.keys()
    return failure.keys() <= _FAILURE_MEMBERS and (
        all(isinstance(failure.get(name), str) for name in texts)
        and all(isinstance(failure[name], int | float) for name in numbers)
        and not any(isinstance(failure[name], bool) for name in numbers)
    )


def _with_message(data: JsonObject, moved: set[str], message: JsonObject) -> JsonObject:
    kept = {name: value for name, value in data.items() if name not in moved}
    return {**kept, "message": message}


def _is_turn(data: JsonObject) -> bool:
    turn = data.get("turn")
    return is_safe_integer(turn) and turn >= 1  # type: ignore[operator]  # a number: checked


def _malformed(event: JsonObject) -> CorruptLogError:
    return CorruptLogError(f"malformed old {event.get('type')} at seq {event.get('seq')}")


_REASONS: Final = {"aborted": _aborted, "disposed": _disposed, "error": _error}

_UPGRADES: Final[dict[str, Callable[[LegacyUpgrade, JsonObject], JsonObject]]] = {
    "turn/start": LegacyUpgrade._turn_start,
    "turn/end": LegacyUpgrade._turn_end,
    "steering/message": LegacyUpgrade._steering,
    "user/message": LegacyUpgrade._user_message,
    "assistant/message": LegacyUpgrade._assistant_message,
    "tool/result": LegacyUpgrade._tool_result,
}
