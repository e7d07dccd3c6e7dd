"""Messages as the model sees them (SEMANTICS 1)."""

from __future__ import annotations

from typing import Literal, Self
from uuid import uuid4

from pydantic import Field, model_validator

from surfacelog.schemas.models.blocks import Block, TextBlock, ToolResultBlock
from surfacelog.schemas.models.json_model import JsonModel
from surfacelog.schemas.models.sources import ModelSource, Source, ToolSource, UserSource


def _new_id() -> str:
    return str(uuid4())


class UserMessage(JsonModel):
    """A message of the user's side: a person, a plugin, another agent."""

    content: list[Block]
    source: Source = UserSource()
    role: Literal["user", "system", "assistant"] = "user"
    id: str = Field(default_factory=_new_id, min_length=1)

    @classmethod
    def text(cls, text: str, source: Source | None = None) -> Self:
        """Return a message of one text block; of a person unless a source is given."""
        return cls(content=[TextBlock(text=text)], source=source or UserSource())


class AssistantMessage(JsonModel):
    """A message of the model. Empty content stays on the Surface but gives no message."""

    role: Literal["assistant"] = "assistant"
    content: list[Block]
    source: ModelSource
    id: str = Field(default_factory=_new_id, min_length=1)

    @classmethod
    def text(cls, text: str, *, provider: str, model: str) -> Self:
        """Return a message of one text block."""
        source = ModelSource(provider=provider, model=model)
        return cls(content=[TextBlock(text=text)], source=source)


class ToolResultMessage(JsonModel):
    """A tool's answer: exactly one tool-result block, for the call that the source names."""

    source: ToolSource
    content: list[ToolResultBlock] = Field(min_length=1, max_length=1)
    role: Literal["user"] = "user"
    id: str = Field(default_factory=_new_id, min_length=1)

    @model_validator(mode="after")
    def _answers_its_call(self) -> Self:
        if self.content[0].tool_call_id != self.source.call_id:
            raise ValueError("toolCallId of the block differs from callId of the source")
        return self

    @classmethod
    def text(cls, call_id: str, text: str, *, is_error: bool = False) -> Self:
        """Return the answer to a call as one text."""
        block = ToolResultBlock.of_text(call_id, text, is_error=is_error)
        return cls(source=ToolSource(call_id=call_id), content=[block])
