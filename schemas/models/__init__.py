"""Building blocks for writers: messages, blocks, sources, events and headers as typed models."""

from __future__ import annotations

from surfacelog.schemas.models.blocks import (
    Attachment,
    Block,
    ImageBlock,
    OtherBlock,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from surfacelog.schemas.models.events import DATA_MODELS, EventData, surface_event
from surfacelog.schemas.models.header import AdapterDefaults, CallConfig, RequestHeader, ToolSchema
from surfacelog.schemas.models.json_model import JsonModel
from surfacelog.schemas.models.messages import AssistantMessage, ToolResultMessage, UserMessage
from surfacelog.schemas.models.sources import (
    ModelSource,
    OtherSource,
    PluginSource,
    Section,
    Source,
    ToolSource,
    UserSource,
)

__all__ = [
    "DATA_MODELS",
    "AdapterDefaults",
    "AssistantMessage",
    "Attachment",
    "Block",
    "CallConfig",
    "EventData",
    "ImageBlock",
    "JsonModel",
    "ModelSource",
    "OtherBlock",
    "OtherSource",
    "PluginSource",
    "ReasoningBlock",
    "RequestHeader",
    "Section",
    "Source",
    "TextBlock",
    "ToolCallBlock",
    "ToolResultBlock",
    "ToolResultMessage",
    "ToolSchema",
    "ToolSource",
    "UserMessage",
    "UserSource",
    "surface_event",
]
