"""The request header: system prompt, tool schemas and call config (SEMANTICS 1)."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from surfacelog.schemas.models.json_model import JsonModel


class ToolSchema(JsonModel):
    """A tool that the model may call; `parameters` is its JSON schema."""

    name: str
    description: str
    parameters: dict[str, Any]


class CallConfig(JsonModel):
    """Which model is called, and how."""

    provider: str = Field(min_length=1)
    model: str = Field(min_length=1)
    reasoning_effort: str | None = Field(None, min_length=1)
    temperature: int | float | None = None
    max_tokens: int | None = None
    stop: list[str] | None = None


class AdapterDefaults(JsonModel):
    """Which values of the config the adapter chose, not the caller."""

    reasoning_effort: Literal[True] | None = None
    max_tokens: Literal[True] | None = None


class RequestHeader(JsonModel):
    """What a request says beside its messages."""

    config: CallConfig
    adapter_defaults: AdapterDefaults | None = None
    system: str | None = None
    tools: list[ToolSchema] | None = None

    @model_validator(mode="after")
    def _defaults_are_of_the_config(self) -> Self:
        flags = self.adapter_defaults
        if flags and flags.reasoning_effort and self.config.reasoning_effort is None:
            raise ValueError("adapterDefaults names reasoningEffort, which the config lacks")
        if flags and flags.max_tokens and self.config.max_tokens is None:
            raise ValueError("adapterDefaults names maxTokens, which the config lacks")
        return self
