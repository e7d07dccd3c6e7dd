"""Assistant content from its stream of chunks (SEMANTICS 1, "block assembly").

Indexes are blocks, in the order of first sight. The first block-end of an index closes it with
its final block; what comes later for that index is ignored. Deltas without a start open a block
of their kind, and a block that was never closed is what the deltas of its own kind add up to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_text import js_dumps, text_or_json
from surfacelog.schemas.json_value import member, text_member
from surfacelog.schemas.utf16 import join_pairs

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

_DELTA_KINDS: Final = {
    "text-delta": "text",
    "reasoning-delta": "reasoning",
    "tool-call-delta": "tool-call",
}
_STOP: Final[JsonObject] = {"kind": "stop"}


@dataclass(slots=True)
class _OpenBlock:
    kind: str
    index: JsonValue
    text: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    call_id: JsonValue = None
    name: str = ""
    closed: JsonObject | None = None


class BlockAssembler:
    """Folds the chunks of one response, in stream order.

    `usage` is the last usage chunk's, None before one; `finish` the last finish reason, a plain
    stop when there is none; `replay_state` what the adapter left with it.
    """

    def __init__(self) -> None:
        self.usage: JsonValue = None
        self.finish: JsonValue = _STOP
        self.replay_state: JsonValue = None
        self._blocks: dict[str, _OpenBlock] = {}

    def push(self, chunk: JsonValue) -> None:
        """Take the next chunk; CorruptLogError when it is not of one of the chunk types."""
        kind = member(chunk, "type")
        if kind == "usage":
            self.usage = member(chunk, "usage")
        elif kind == "finish":
            self.finish = member(chunk, "reason")
            self.replay_state = member(chunk, "replayState")
        elif kind == "block-start":
            self._block(chunk, member(chunk, "blockType"))
        elif kind == "block-end":
            self._close(chunk)
        elif isinstance(kind, str) and kind in _DELTA_KINDS:
            self._extend(chunk, _DELTA_KINDS[kind])
        else:
            raise CorruptLogError(f"unknown stream chunk type {text_or_json(kind)[:40]}")

    def blocks(self) -> list[JsonObject]:
        """Return the blocks so far; without tool calls when max-tokens cut the stream short.

        Raises CorruptLogError for an unclosed block of a type that has no deltas.
        """
        blocks = [_assembled(block) for block in self._blocks.values()]
        if member(self.finish, "kind") != "max-tokens":
            return blocks
        # A call that was cut off cannot be executed safely, and which one it was is unknown.
        return [block for block in blocks if block.get("type") != "tool-call"]

    def _block(self, chunk: JsonValue, kind: JsonValue) -> _OpenBlock:
        index = member(chunk, "index")
        return self._blocks.setdefault(js_dumps(index), _OpenBlock(text_or_json(kind), index))

    def _close(self, chunk: JsonValue) -> None:
        final = member(chunk, "block")
        if not isinstance(final, dict):
            raise CorruptLogError("a block-end chunk carries its block")
        block = self._block(chunk, final.get("type"))
        if block.closed is None:
            block.closed = final

    def _extend(self, chunk: JsonValue, kind: str) -> None:
        block = self._block(chunk, kind)
        delta = member(chunk, "argumentsDelta" if kind == "tool-call" else "text")
        if not isinstance(delta, str):
            raise CorruptLogError(f"a {kind} delta carries a text")
        if block.closed is not None:
            return
        if kind != "tool-call":
            block.text.append(delta)
            return
        block.arguments.append(delta)
        block.call_id = member(chunk, "id")
        block.name = text_member(chunk, "name") or block.name


def _assembled(block: _OpenBlock) -> JsonObject:
    if block.closed is not None:
        return block.closed
    if block.kind == "tool-call":
        call_id = block.call_id
        if call_id is None:
            call_id = f"call-{text_or_json(block.index)}"
        arguments = join_pairs("".join(block.arguments))
        return {"type": "tool-call", "id": call_id, "name": block.name, "arguments": arguments}
    if block.kind in ("text", "reasoning"):
        return {"type": block.kind, "text": join_pairs("".join(block.text))}
    raise CorruptLogError(f"the stream ends inside a block of type {block.kind!r}")
