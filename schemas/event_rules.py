"""What makes one event admissible, whatever stands around it (SEMANTICS 3).

The envelope has the members of a session event and no others; a request header names its
provider and model; a message has an id, a role, a source and a list of blocks. What the inner
blocks hold, usage values and every other payload are the writer's own affair.
"""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.errors import AdmissionError, UnsupportedLogError
from surfacelog.schemas.event_types import KNOWN_TYPES
from surfacelog.schemas.json_text import text_or_json
from surfacelog.schemas.json_value import is_count, is_safe_integer, member
from surfacelog.schemas.surface_form import replaced_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from surfacelog.schemas.json_value import JsonObject, JsonValue

_MEMBERS: Final = frozenset(
    {"type", "seq", "time", "data", "ignorable", "sourceEventSeqs", "surfaceOp"}
)
_DEFAULT_FLAGS: Final = ("reasoningEffort", "maxTokens")


def check_event(event: JsonValue) -> None:
    """Check one event, of a log (with `seq`) or of an append (without).

    Raises AdmissionError `malformed`, `unsupported_type` for the retired header delta, or
    `surface.op` for the form of it; the span and the sources are judged, in that order, by those
    who know the surface. That the value is lossless JSON is not looked at again: what a codec
    decoded is (see `check_lossless`).
    """
    if not isinstance(event, dict):
        raise _malformed("an event is an object")
    check_retired(event)
    _check_envelope(event)
    check = _DATA_CHECKS.get(event["type"])  # type: ignore[arg-type]  # a string: just checked
    if check is not None:
        check(event["data"])
    replaced_range(event)


def check_retired(event: JsonObject) -> None:
    """Refuse what old writers wrote of request headers and nobody reads any more.

    Raises AdmissionError `unsupported_type` for the header delta, `malformed` for the reason
    "fallback".
    """
    if event.get("type") == "request/header-delta":
        raise AdmissionError(
            "unsupported_type", "request/header-delta is retired: write whole request/header events"
        )
    if event.get("type") == "request/header" and member(event.get("data"), "reason") == "fallback":
        raise _malformed("the request/header reason 'fallback' is retired")


def check_message_event(event: JsonObject) -> None:
    """Check the message of an event that carries one, whatever its envelope.

    Raises AdmissionError `malformed`.
    """
    kind = event.get("type")
    if isinstance(kind, str) and kind != "request/header" and kind in _DATA_CHECKS:
        _DATA_CHECKS[kind](event.get("data"))


def check_known_type(event: JsonObject) -> None:
    """Refuse an event that no reader may skip and this one does not know (SEMANTICS 2).

    Raises AdmissionError `unsupported_type`; types marked `ignorable` pass.
    """
    if event["type"] not in KNOWN_TYPES and event.get("ignorable") is not True:
        raise AdmissionError(
            "unsupported_type",
            f"type {event['type']!r} is unknown and not marked ignorable: mark it, or upgrade",
        )


def require_known_types(events: list[JsonObject]) -> None:
    """Refuse a stored session that holds such a type.

    Raises UnsupportedLogError: the log is neither corrupt nor empty, this reader is too old.
    """
    for event in events:
        kind = event.get("type")
        known = isinstance(kind, str) and kind in KNOWN_TYPES
        if not known and event.get("ignorable") is not True:
            named = text_or_json(kind)[:80]
            raise UnsupportedLogError(
                f"event type {named!r} at seq {event.get('seq')} is unknown and not marked"
                " ignorable: a newer writer made this log, upgrade to read it",
                type=named,
                seq=event.get("seq"),
            )


def check_lossless(value: JsonValue) -> None:
    """Refuse numbers that JSON cannot carry and give back: -0, infinities, NaN (SEMANTICS 3).

    Raises AdmissionError `malformed`. Any depth.
    """
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
        elif isinstance(current, float) and not (isfinite(current) and _is_positive_zero(current)):
            raise _malformed(f"{current!r} is not lossless JSON")


def _is_positive_zero(number: float) -> bool:
    """True for every number but -0.0, which compares equal to 0.0."""
    return number != 0 or str(number)[0] != "-"


def _check_envelope(event: JsonObject) -> None:
    if not event.keys() <= _MEMBERS:
        raise _malformed(f"unknown event members {sorted(event.keys() - _MEMBERS)}")
    if not isinstance(event.get("type"), str):
        raise _malformed("an event's type is a string")
    if not is_safe_integer(event.get("time")):
        raise _malformed("an event's time is an integer, in ms")
    if "data" not in event:
        raise _malformed("an event carries data, null at least")
    if "seq" in event and not is_count(event["seq"]):
        raise _malformed("an event's seq is a non-negative integer")
    if "ignorable" in event and event["ignorable"] is not True:
        raise _malformed("ignorable is true or absent")


def _check_request_header(data: JsonValue) -> None:
    header = member(data, "header")
    config = member(header, "config")
    if not (_names_model(config) and isinstance(config, dict)):
        raise _malformed("a request header names its provider and model")
    if "reasoningEffort" in config and not _is_name(config["reasoningEffort"]):
        raise _malformed("reasoningEffort is a non-empty string or absent")
    if isinstance(header, dict) and "adapterDefaults" in header:
        _check_adapter_defaults(header["adapterDefaults"], config)


def _check_adapter_defaults(flags: JsonValue, config: JsonObject) -> None:
    """A flag says that the adapter, not the caller, chose a config value: it must be there."""
    if not isinstance(flags, dict) or not all(
        flag in _DEFAULT_FLAGS and value is True and flag in config for flag, value in flags.items()
    ):
        raise _malformed("adapterDefaults flags reasoningEffort or maxTokens of the config, true")


def _check_user_message(data: JsonValue) -> None:
    _check_message(data, "user")


def _check_assistant_message(data: JsonValue) -> None:
    source = _check_message(member(data, "message"), "assistant")
    if source["kind"] != "model" or not _names_model(source):
        raise _malformed("an assistant message has a model source with provider and model")


def _check_tool_result(data: JsonValue) -> None:
    message = member(data, "message")
    source = _check_message(message, "user")
    if source["kind"] != "tool" or not _is_name(source.get("callId")):
        raise _malformed("a tool result has a tool source with callId")
    content = member(message, "content")
    block = content[0] if isinstance(content, list) and len(content) == 1 else None
    if member(block, "type") != "tool-result" or not isinstance(member(block, "content"), list):
        raise _malformed("a tool result has exactly one tool-result block, with content")
    if member(block, "toolCallId") != source["callId"]:
        raise _malformed("a tool result's block answers the call that its source names")


def _check_message(message: JsonValue, role: str) -> JsonObject:
    """Check what all messages share; return the source."""
    if not isinstance(message, dict) or not _is_name(message.get("id")):
        raise _malformed("a message has a non-empty id")
    if message.get("role") != role:
        raise _malformed(f"this message has the role {role!r}")
    source = message.get("source")
    if not isinstance(source, dict) or not _is_name(source.get("kind")):
        raise _malformed("a message has a source with a kind")
    if not isinstance(message.get("content"), list):
        raise _malformed("a message's content is a list of blocks")
    return source


def _names_model(value: JsonValue) -> bool:
    return _is_name(member(value, "provider")) and _is_name(member(value, "model"))


def _is_name(value: JsonValue) -> bool:
    return isinstance(value, str) and value != ""


def _malformed(message: str) -> AdmissionError:
    return AdmissionError("malformed", message)


_DATA_CHECKS: Final[dict[str, Callable[[JsonValue], None]]] = {
    "request/header": _check_request_header,
    "user/message": _check_user_message,
    "assistant/message": _check_assistant_message,
    "tool/result": _check_tool_result,
}
