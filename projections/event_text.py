"""The searchable text of an event: what was said and done, without structure (SEMANTICS 10).

Reasoning, streams, request headers and types that nobody has defined a text for have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.projections.messages import message_of
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_text import text_or_json
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from surfacelog.schemas.json_value import JsonObject, JsonValue

# What JavaScript trims: Unicode's spaces and line ends, and the byte order mark.
_BLANKS: Final = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)


def event_text(event: JsonObject) -> str:
    """Return the text, its parts trimmed and one a line; empty when there is none.

    Raises CorruptLogError when a part that should be a text is something else.
    """
    kind = event.get("type")
    parts = _PARTS.get(kind) if isinstance(kind, str) else None
    return "" if parts is None else _join(parts(event))


def _join(parts: Iterable[JsonValue]) -> str:
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, str):
            raise CorruptLogError(f"{text_or_json(part)[:40]} stands where a text should")
        texts.append(part.strip(_BLANKS))
    return "\n".join(text for text in texts if text)


def _message_parts(event: JsonObject) -> list[JsonValue]:
    return [_content_text(message_of(event).get("content"))]


def _content_text(content: JsonValue) -> str:
    """Return the text of a list of blocks, nested results included, in reading order."""
    if not isinstance(content, list):
        raise CorruptLogError("content is a list of blocks")
    parts: list[JsonValue] = []
    pending = content[::-1]
    while pending:
        block = pending.pop()
        kind = member(block, "type")
        if block is None:
            raise CorruptLogError("a block is null")
        if kind == "text":
            parts.append(member(block, "text"))
        elif kind == "tool-call":
            parts += [member(block, "name"), member(block, "arguments")]
        elif kind == "tool-result":
            inner = member(block, "content")
            if not isinstance(inner, list):
                raise CorruptLogError("content is a list of blocks")
            pending += inner[::-1]
    return _join(parts)


def _call_parts(event: JsonObject) -> list[JsonValue]:
    data = event.get("data")
    return [member(data, "name"), member(data, "arguments")]


def _result_parts(event: JsonObject) -> list[JsonValue]:
    error = member(event.get("data"), "error")
    name, code = member(error, "name"), member(error, "code")
    none: JsonValue = ""
    return [*_message_parts(event), none if name is None else name, none if code is None else code]


def _todo_parts(event: JsonObject) -> list[JsonValue]:
    todos = member(event.get("data"), "todos")
    if not isinstance(todos, list):
        raise CorruptLogError("todos is a list")
    return [part for todo in todos for part in (member(todo, "status"), member(todo, "content"))]


def _turn_end_parts(event: JsonObject) -> list[JsonValue]:
    reason = member(event.get("data"), "reason")
    if reason is None:
        raise CorruptLogError("a turn ends for a reason")
    kind = member(reason, "kind")
    if kind == "error":
        return ["error", member(member(reason, "error"), "message")]
    return [kind] if kind in ("aborted", "max-tokens", "interrupted") else []


_PARTS: Final[dict[str, Callable[[JsonObject], list[JsonValue]]]] = {
    "user/message": _message_parts,
    "assistant/message": _message_parts,
    "tool/call": _call_parts,
    "tool/result": _result_parts,
    "todo/write": _todo_parts,
    "turn/end": _turn_end_parts,
}
