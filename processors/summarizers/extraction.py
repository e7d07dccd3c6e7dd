"""What a span's messages say, section by section, taken verbatim and never worded anew.

Items stand in the order of the Surface, so the newest are last. An earlier checkpoint in the
span gives its own items first: it is merged, not nested (SEMANTICS 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.projections.checkpoint import checkpoint_of, checkpoint_text
from surfacelog.projections.summary_sections import parse
from surfacelog.schemas.json_text import JsonTextError, loads
from surfacelog.schemas.json_value import list_member, member, object_member, text_member

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from surfacelog.processors.summarizers.protocol import SummaryRequest
    from surfacelog.projections.span_facts import Todo
    from surfacelog.projections.summary_sections import Section
    from surfacelog.schemas.json_value import JsonObject, JsonValue

Items = dict["Section", list[str]]

_TOUCHED: Final = ("path", "file_path", "filePath", "file", "filename", "paths", "files")
_COMMANDS: Final = ("command", "cmd", "script")
# What the newest span says of these takes the place of what an earlier checkpoint said.
_STATE: Final[tuple[Section, ...]] = ("Pending jobs", "Current work", "Next step")


def extract(request: SummaryRequest) -> Items:
    """Return the items of every section, each at most once, at the place of its last mention."""
    earlier: Items = {}
    fresh: Items = {}
    calls: dict[str, str] = {}
    for message in request.messages:
        if checkpoint_of(message) is not None:
            _extend(earlier, parse(checkpoint_text(message)).items())
        else:
            _extend(fresh, _message_items(message, calls, request))
    _extend(fresh, [("Errors and fixes", [f"turn failed: {f}" for f in request.facts.failures])])
    _extend(fresh, _place_items(request))
    fresh.update(_todo_items(request.facts.todos))
    return _merge(earlier, fresh)


def message_text(message: JsonValue) -> str:
    """Return the text of a message or of a tool result; an image as its name in brackets."""
    parts: list[str] = []
    for block in list_member(message, "content"):
        kind = text_member(block, "type")
        if kind == "text":
            parts.append(text_member(block, "text") or "")
        elif kind == "image":
            attachment = object_member(block, "attachment")
            name = text_member(attachment, "name") or text_member(attachment, "attachmentId")
            parts.append(f"[image {name}]")
    return "\n".join(part for part in parts if part.strip()).strip()


def _extend(items: Items, more: Iterable[tuple[Section, list[str]]]) -> None:
    for section, texts in more:
        items.setdefault(section, []).extend(text for text in texts if text)


def _message_items(
    message: JsonObject, calls: dict[str, str], request: SummaryRequest
) -> Iterator[tuple[Section, list[str]]]:
    """Yield the items of one message; `calls` collects the names of tools by call id."""
    kind = text_member(object_member(message, "source"), "kind")
    if kind == "model":
        yield from _assistant_items(message, calls)
    elif kind == "tool":
        yield "Errors and fixes", list(_error_items(message, calls, request.facts.error_codes))
    elif kind == "user":
        yield "Primary request and intent", [message_text(message)]
    else:
        yield "Critical context", [_context_item(message)]


def _assistant_items(
    message: JsonObject, calls: dict[str, str]
) -> Iterator[tuple[Section, list[str]]]:
    for block in list_member(message, "content"):
        name = text_member(block, "name")
        if text_member(block, "type") != "tool-call" or name is None:
            continue
        calls[text_member(block, "id") or ""] = name
        yield "Key technical concepts", [f"tool {name}"]
        yield "Files and code", [f"{name}: {touched}" for touched in _touched(block)]


def _touched(call: JsonValue) -> Iterator[str]:
    """Yield the paths and the commands among a tool call's arguments."""
    try:
        arguments = loads(text_member(call, "arguments") or "{}")
    except JsonTextError:
        return  # models do write arguments that are no JSON
    for key in (*_TOUCHED, *_COMMANDS):
        value = member(arguments, key)
        texts = value if isinstance(value, list) else [value]
        found = [text for text in texts if isinstance(text, str)]
        yield from [" ".join(found)] if key in _COMMANDS and found else found


def _error_items(
    message: JsonObject, calls: dict[str, str], codes: Mapping[str, str]
) -> Iterator[str]:
    for block in list_member(message, "content"):
        call_id = text_member(block, "toolCallId") or ""
        code = codes.get(call_id)
        if code is not None or member(block, "isError") is True:
            label = f"{calls.get(call_id, 'tool')} failed" + (f" ({code})" if code else "")
            yield f"{label}: {message_text(block)}"


def _context_item(message: JsonObject) -> str:
    source = object_member(message, "source")
    names = [text_member(source, key) for key in ("kind", "plugin", "form")]
    text = message_text(message)
    return f"[{' '.join(name for name in names if name)}] {text}" if text else ""


def _place_items(request: SummaryRequest) -> Iterator[tuple[Section, list[str]]]:
    said = [
        text
        for message in request.messages
        if text_member(object_member(message, "source"), "kind") == "model"
        if (text := message_text(message))
    ]
    yield "Current work", said[-1:]
    facts = request.facts
    if facts.turn is not None:
        step = f", step {facts.step}" if facts.step is not None else ""
        yield "Current work", [f"turn {facts.turn}{step} is open"]


def _todo_items(todos: tuple[Todo, ...] | None) -> Items:
    """Return the state of the todo list; no section at all when the span wrote no list."""
    if todos is None:
        return {}
    open_todos = [todo for todo in todos if todo.status != "completed"]
    active = [todo for todo in open_todos if todo.status == "in_progress"] or open_todos[:1]
    return {
        "Pending jobs": [f"[{todo.status}] {todo.content}" for todo in open_todos],
        "Next step": [todo.content for todo in active],
    }


def _merge(earlier: Items, fresh: Items) -> Items:
    merged: Items = {}
    for section in {**earlier, **fresh}:
        before = [] if section in _STATE and section in fresh else earlier.get(section, [])
        texts = [*before, *fresh.get(section, [])]
        # dict keeps the first place of a key: turned round twice, the last mention wins.
        merged[section] = list(dict.fromkeys(reversed(texts)))[::-1]
    return merged
