"""A span as a chat-completions request: the conversation's own prefix, then one instruction.

The same messages always give the same bytes, whatever follows them, so that a provider's prefix
cache that the conversation has warmed is used (SEMANTICS 6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.projections.compaction_region import summarizer_prefix
from surfacelog.projections.summary_sections import NONE, SECTIONS
from surfacelog.schemas.json_text import replace_lone_surrogates
from surfacelog.schemas.json_value import (
    int_member,
    list_member,
    member,
    object_member,
    text_member,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from surfacelog.processors.summarizers.protocol import SummaryRequest
    from surfacelog.schemas.json_value import JsonObject, JsonValue

INSTRUCTION: Final = (
    "Stop here and write a checkpoint of the conversation so far. It will take the place of all"
    " messages above, so whoever goes on from it knows only what it says.\n\n"
    "Answer with Markdown alone and call no tool. Use these headings, in this order, and leave"
    f" none out; write {NONE} under one that has nothing to say:\n\n"
    + "\n".join(f"## {name}" for name in SECTIONS)
    + "\n\nUnder each heading write a list of items that begin with '- '. Quote paths, commands,"
    " errors and identifiers exactly. Keep every correction and constraint that the user gave, in"
    " the user's words. Where the conversation begins with a <compacted-summary>, merge what it"
    " says into the same sections: update what has changed since, and neither copy it whole nor"
    " drop what still holds."
)


def chat_request(request: SummaryRequest, model: str, *, reasoning: bool) -> JsonObject:
    """Return the body of the request; `reasoning` also sends what the model thought.

    Lone surrogates, which have no bytes, are replaced.
    """
    prefix = summarizer_prefix(request.header, request.messages)
    messages = list(_messages(prefix, reasoning=reasoning))
    body: JsonObject = {"messages": [*messages, {"role": "user", "content": INSTRUCTION}]}
    tools = list_member(prefix, "tools")
    if tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in tools]
    body |= {
        "model": model,
        "max_tokens": request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    sendable, _ = replace_lone_surrogates(body)
    assert isinstance(sendable, dict)
    return sendable


def _messages(prefix: JsonObject, *, reasoning: bool) -> Iterator[JsonObject]:
    system = text_member(prefix, "system")
    if system:
        yield {"role": "system", "content": system}
    chat = (
        one
        for message in list_member(prefix, "messages")
        for one in _chat_messages(message, reasoning=reasoning)
    )
    yield from _results_first(chat)


def _chat_messages(message: JsonValue, *, reasoning: bool) -> Iterator[JsonObject]:
    blocks = list_member(message, "content")
    role = text_member(message, "role") or "user"
    if role == "assistant":
        yield _assistant(blocks, reasoning=reasoning)
        return
    results = [block for block in blocks if text_member(block, "type") == "tool-result"]
    for result in results:
        yield {
            "role": "tool",
            "tool_call_id": text_member(result, "toolCallId") or "",
            "content": _text(list_member(result, "content")),
        }
    if not results:
        yield {"role": role, "content": _text(blocks)}


def _assistant(blocks: list[JsonValue], *, reasoning: bool) -> JsonObject:
    chat: JsonObject = {"role": "assistant", "content": _text(blocks)}
    thought = "\n".join(_texts(blocks, "reasoning"))
    if reasoning and thought:
        chat["reasoning_content"] = thought
    calls: list[JsonValue] = [
        {
            "id": text_member(block, "id") or "",
            "type": "function",
            "function": {
                "name": text_member(block, "name") or "",
                "arguments": text_member(block, "arguments") or "",
            },
        }
        for block in blocks
        if text_member(block, "type") == "tool-call"
    ]
    if calls:
        chat["tool_calls"] = calls
    return chat


def _results_first(messages: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Put what was said between calls and their results behind the results.

    The protocol wants the results right after the calls; the log has them as they came.
    """
    awaited: set[JsonValue] = set()
    held: list[JsonObject] = []
    for message in messages:
        if message["role"] == "tool":
            awaited.discard(message["tool_call_id"])
            yield message
        elif awaited:
            held.append(message)
            continue
        else:
            awaited = {text_member(call, "id") for call in list_member(message, "tool_calls")}
            yield message
        if not awaited and held:
            yield from _results_first(held)
            held = []
    yield from held


def _text(blocks: list[JsonValue]) -> str:
    """Return the text blocks, one a line; images, whose bytes are not in the log, by name."""
    return "\n".join(_texts(blocks, "text"))


def _texts(blocks: list[JsonValue], kind: str) -> Iterator[str]:
    for block in blocks:
        found = text_member(block, "type")
        if found == kind:
            yield text_member(block, "text") or ""
        elif found == "image" and kind == "text":
            yield _image(object_member(block, "attachment"))


def _image(attachment: JsonObject) -> str:
    name = text_member(attachment, "name") or text_member(attachment, "attachmentId") or "image"
    size = f"{int_member(attachment, 'width')}x{int_member(attachment, 'height')}"
    return f"[image {name}, {member(attachment, 'mediaType')}, {size}]"
