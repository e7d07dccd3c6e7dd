"""What a streamed chat completion says, folded from its chunks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surfacelog.schemas.json_value import (
    int_member,
    list_member,
    member,
    object_member,
    text_member,
)

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class ChatAnswer:
    """One answer as far as it has arrived.

    `chunks` counts those that were chat-completion chunks; `finish` is the reason that ended the
    answer, None while it has not ended; `usage` is in the log's own terms (SEMANTICS 1).
    """

    chunks: int = 0
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    has_image: bool = False
    finish: str | None = None
    usage: JsonObject | None = None
    _calls: dict[int, _Call] = field(default_factory=dict)

    def add(self, chunk: JsonValue) -> None:
        """Take the next chunk; what is none changes nothing."""
        usage = object_member(chunk, "usage")
        if usage:
            self.usage = _usage(usage)
        for choice in list_member(chunk, "choices")[:1]:
            self.chunks += 1
            self.finish = text_member(choice, "finish_reason") or self.finish
            self._add_delta(object_member(choice, "delta"))

    def blocks(self) -> tuple[JsonObject, ...]:
        """Return everything that was said as content blocks: the raw output."""
        blocks: list[JsonObject] = []
        if self.reasoning:
            blocks.append({"type": "reasoning", "text": self.reasoning})
        if self.text:
            blocks.append({"type": "text", "text": self.text})
        for call in self._calls.values():
            called: JsonObject = {"id": call.id, "name": call.name, "arguments": call.arguments}
            blocks.append({"type": "tool-call", **called})
        return tuple(blocks)

    def _add_delta(self, delta: JsonObject) -> None:
        content = delta.get("content")
        if isinstance(content, str):
            self.text += content
        self.has_image |= isinstance(content, list) or bool(list_member(delta, "images"))
        # DeepSeek's name for it, and that of newer vLLM servers.
        self.reasoning += (
            text_member(delta, "reasoning_content") or text_member(delta, "reasoning") or ""
        )
        self.refusal += text_member(delta, "refusal") or ""
        for call in list_member(delta, "tool_calls"):
            self._add_call(call)

    def _add_call(self, delta: JsonValue) -> None:
        call = self._calls.setdefault(int_member(delta, "index") or 0, _Call())
        function = object_member(delta, "function")
        call.id = text_member(delta, "id") or call.id
        call.name = text_member(function, "name") or call.name
        call.arguments += text_member(function, "arguments") or ""


def _usage(counted: JsonObject) -> JsonObject:
    """Return the usage with cached input counted apart, as the log counts it."""
    prompt, output = int_member(counted, "prompt_tokens"), int_member(counted, "completion_tokens")
    details = member(counted, "prompt_tokens_details")
    cached = int_member(details, "cached_tokens")
    if cached is None:
        cached = int_member(counted, "prompt_cache_hit_tokens")  # DeepSeek's own count
    usage: JsonObject = {
        "inputTokens": max(0, (prompt or 0) - (cached or 0)),
        "outputTokens": output or 0,
    }
    if cached is not None:
        usage["cacheReadTokens"] = cached
    thought = int_member(member(counted, "completion_tokens_details"), "reasoning_tokens")
    if thought is not None:
        usage["reasoningTokens"] = thought
    return usage
