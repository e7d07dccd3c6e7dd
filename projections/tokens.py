"""What text costs, by a rule of thumb that needs no tokenizer (SEMANTICS 4).

Lengths are UTF-16 code units; four of them make a token, rounded up per text. Prices are
tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.schemas.json_text import js_dumps
from surfacelog.schemas.json_value import member
from surfacelog.schemas.utf16 import join_pairs, utf16_length

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

OVERHEAD: Final = 4
"""What a block, a message, a system prompt and a list of tools cost beside their text."""

# A tool-result is priced by its inner blocks: one without any list of them has no price.
_PRICED_BY: Final = {
    "text": ("text",),
    "reasoning": ("text",),
    "tool-call": ("name", "arguments"),
    "tool-result": (),
}


def length_price(code_units: int) -> int:
    """Return the price of that many UTF-16 code units."""
    return (code_units + 3) // 4


def text_price(text: str) -> int:
    """Return the price of the text alone."""
    return length_price(utf16_length(text))


def json_price(value: JsonValue) -> int:
    """Return the price of a value's JSON text."""
    return text_price(js_dumps(value))


def blocks_price(blocks: JsonValue) -> int:
    """Return the price of a list of content blocks, nested ones too; 0 for what is no list."""
    total = 0
    pending = _listed(blocks) or []
    while pending:
        block = pending.pop()
        inner = _inner_blocks(block)
        total += OVERHEAD
        if inner is None:
            total += _own_price(block)
        else:
            pending.extend(inner)
    return total


def message_price(message: JsonObject | None) -> int:
    """Return the price of a message as the model sees it; 0 for None (see `derived_message`).

    Total: a block that is not of its type's shape is priced by its JSON, as unknown types are.
    """
    return 0 if message is None else blocks_price(message.get("content")) + OVERHEAD


def system_price(system: JsonValue) -> int:
    """Return the price of a system prompt; 0 when there is none."""
    return text_price(system) + OVERHEAD if isinstance(system, str) and system else 0


def tools_price(tools: JsonValue) -> int:
    """Return the price of the tool schemas; 0 when there are none.

    Recorded headers may hold a placeholder text in their place: it is priced like a list.
    """
    return json_price(tools) + OVERHEAD if tools else 0


def header_price(header: JsonObject | None) -> int:
    """Return the price of a canonical request header: system prompt and tools."""
    if header is None:
        return 0
    return system_price(header.get("system")) + tools_price(header.get("tools"))


def is_priceable(blocks: JsonValue) -> bool:
    """Return whether all blocks, nested ones too, have the texts that their types are priced by."""
    pending = _listed(blocks)
    if pending is None:
        return False
    while pending:
        block = pending.pop()
        inner = _inner_blocks(block)
        if inner is not None:
            pending.extend(inner)
        elif block is None or (_kind(block) in _PRICED_BY and _texts(block) is None):
            return False
    return True


def _listed(blocks: JsonValue) -> list[JsonValue] | None:
    """Return the blocks as a list of one's own; a text is a list of characters, as elsewhere."""
    if isinstance(blocks, str):
        return list(join_pairs(blocks))
    return list(blocks) if isinstance(blocks, list) else None


def _kind(block: JsonValue) -> str:
    kind = member(block, "type")
    return kind if isinstance(kind, str) else ""


def _inner_blocks(block: JsonValue) -> list[JsonValue] | None:
    inner = member(block, "content") if _kind(block) == "tool-result" else None
    return _listed(inner) if inner is not None else None


def _texts(block: JsonValue) -> list[str] | None:
    """Return the texts that the block is priced by; None when one is missing."""
    found = [member(block, name) for name in _PRICED_BY[_kind(block)]]
    texts = [text for text in found if isinstance(text, str)]
    return texts if texts and len(texts) == len(found) else None


def _own_price(block: JsonValue) -> int:
    texts = _texts(block) if _kind(block) in _PRICED_BY else None
    return json_price(block) if texts is None else sum(map(text_price, texts))
