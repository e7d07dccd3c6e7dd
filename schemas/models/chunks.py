"""The chunks of a model's stream (SEMANTICS 1). The list of kinds is closed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from surfacelog.schemas.models.blocks import Block
from surfacelog.schemas.models.json_model import JsonModel


class Usage(JsonModel):
    """Tokens of one model call: input without cached ones, output with reasoning."""

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None


class Failure(JsonModel):
    """Why a model call failed; the delay is in ms."""

    message: str
    code: str
    status: int | None = None
    provider_retry_after_ms: int | None = None
    request_id: str | None = None


class BlockStart(JsonModel):
    """A block begins."""

    type: Literal["block-start"] = "block-start"
    index: int
    block_type: str


class TextDelta(JsonModel):
    """More text."""

    type: Literal["text-delta"] = "text-delta"
    index: int
    text: str


class ReasoningDelta(JsonModel):
    """More reasoning."""

    type: Literal["reasoning-delta"] = "reasoning-delta"
    index: int
    text: str


class ToolCallDelta(JsonModel):
    """More arguments of a call."""

    type: Literal["tool-call-delta"] = "tool-call-delta"
    index: int
    id: str
    name: str | None = None
    arguments_delta: str


class BlockEnd(JsonModel):
    """A block is complete."""

    type: Literal["block-end"] = "block-end"
    index: int
    block: Block


class UsageReport(JsonModel):
    """Token usage so far."""

    type: Literal["usage"] = "usage"
    usage: Usage


class FinishReason(JsonModel):
    """Why the stream ended; aborted and error have a failure."""

    kind: Literal["stop", "tool-calls", "max-tokens", "aborted", "error"]
    failure: Failure | None = None


class Finish(JsonModel):
    """The stream ended."""

    type: Literal["finish"] = "finish"
    reason: FinishReason
    replay_state: Any = None


Chunk = Annotated[
    BlockStart | TextDelta | ReasoningDelta | ToolCallDelta | BlockEnd | UsageReport | Finish,
    Field(discriminator="type"),
]
"""Any chunk, told apart by its `type`."""
