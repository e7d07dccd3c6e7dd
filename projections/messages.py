"""The message that a surface event carries, and the one that the model sees of it (SEMANTICS 3).

An assistant message with empty content stays a node, so that it can be cited and shadowed, but
gives no message and costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue


def message_of(event: JsonObject) -> JsonObject:
    """Return the message that a surface event carries; empty when it carries none.

    The data of a user/message *is* the message.
    """
    data = event.get("data")
    found = data if event.get("type") == "user/message" else member(data, "message")
    return found if isinstance(found, dict) else {}


def derived_message(event: JsonObject) -> JsonObject | None:
    """Return what the model sees of a surface event, verbatim; None for an empty assistant."""
    message = message_of(event)
    if event.get("type") == "assistant/message" and message.get("content") in ([], ""):
        return None
    return message


def tool_call_blocks(message: JsonObject) -> list[JsonObject]:
    """Return the tool-call blocks of a message, in order."""
    content: JsonValue = message.get("content")
    if not isinstance(content, list):
        return []
    return [
        block for block in content if isinstance(block, dict) and block.get("type") == "tool-call"
    ]
