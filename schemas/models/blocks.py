"""The blocks of a message's content (SEMANTICS 1). The list of kinds is open."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Tag

from surfacelog.schemas.models.json_model import JsonModel


class TextBlock(JsonModel):
    """Text."""

    type: Literal["text"] = "text"
    text: str


class ReasoningBlock(JsonModel):
    """Reasoning of the model."""

    type: Literal["reasoning"] = "reasoning"
    text: str


class Attachment(JsonModel):
    """Where the bytes of an image are kept; sizes in bytes and pixels."""

    attachment_id: str
    media_type: str
    bytes: int
    width: int
    height: int
    name: str | None = None


class ImageBlock(JsonModel):
    """An image by reference."""

    type: Literal["image"] = "image"
    attachment: Attachment


class ToolCallBlock(JsonModel):
    """A call that the model asks for; `arguments` is its raw JSON text."""

    type: Literal["tool-call"] = "tool-call"
    id: str
    name: str
    arguments: str


class OtherBlock(JsonModel):
    """A block of a kind that has no model here; its members are kept."""

    type: str


class ToolResultBlock(JsonModel):
    """The outcome of a call."""

    type: Literal["tool-result"] = "tool-result"
    tool_call_id: str
    content: list[Block]
    is_error: bool | None = None

    @classmethod
    def of_text(cls, call_id: str, text: str, *, is_error: bool = False) -> Self:
        """Return the block of an outcome that is one text."""
        return cls(tool_call_id=call_id, content=[TextBlock(text=text)], is_error=is_error)


_KINDS = frozenset({"text", "reasoning", "image", "tool-call", "tool-result"})


def _kind(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if isinstance(kind, str) and kind in _KINDS else "other"


Block = Annotated[
    Annotated[TextBlock, Tag("text")]
    | Annotated[ReasoningBlock, Tag("reasoning")]
    | Annotated[ImageBlock, Tag("image")]
    | Annotated[ToolCallBlock, Tag("tool-call")]
    | Annotated[ToolResultBlock, Tag("tool-result")]
    | Annotated[OtherBlock, Tag("other")],
    Discriminator(_kind),
]
"""Any block, told apart by its `type`."""

ToolResultBlock.model_rebuild()
