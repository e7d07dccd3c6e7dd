"""The compaction checkpoint: the user message that takes the place of a shadowed span.

Its text blocks are a preamble that ends with `<compacted-summary>`, the summary's own blocks,
and `</compacted-summary>`; its source names the compaction (SEMANTICS 6). A message is known as
a checkpoint by that source and by where the tags stand, never by searching its text: a summary
may quote the tags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.schemas.json_value import list_member, object_member, text_member

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.schemas.json_value import JsonObject, JsonValue

# As long, in tokens, as the reference's: whether a summary is smaller than what it shadows is
# then decided alike.
PREAMBLE: Final = (
    "This is an automatically generated checkpoint that condenses an earlier span of this"
    " conversation so as to free up context. Take what it says as established background and build"
    " on it without repeating it. Continue the task directly from the messages that follow,"
    " without acknowledging this checkpoint."
)
OPENING: Final = "<compacted-summary>"
CLOSING: Final = "</compacted-summary>"


def frame(summary: Iterable[JsonObject]) -> list[JsonValue]:
    """Return the content blocks of a checkpoint around the summary's text blocks."""
    return [_text(f"{PREAMBLE}\n\n{OPENING}"), *summary, _text(CLOSING)]


def checkpoint_message(
    compaction_id: str,
    summary: Iterable[JsonObject],
    *,
    message_id: str,
    source_command_id: str | None = None,
) -> JsonObject:
    """Return the checkpoint as the data of its user/message event."""
    source: JsonObject = {"kind": "plugin", "plugin": "compact", "compactionId": compaction_id}
    if source_command_id is not None:
        source["sourceCommandId"] = source_command_id
    return {"content": frame(summary), "source": source, "role": "user", "id": message_id}


def checkpoint_of(message: JsonObject) -> str | None:
    """Return the compaction id when the message is a checkpoint, else None."""
    source = object_member(message, "source")
    if source.get("kind") != "plugin" or source.get("plugin") != "compact":
        return None
    return text_member(source, "compactionId")


def checkpoint_text(message: JsonObject) -> str:
    """Return the summary's text inside a checkpoint's frame; empty when the frame is not there."""
    texts = [text_member(block, "text") for block in list_member(message, "content")]
    if len(texts) < 2 or not (texts[0] or "").endswith(OPENING) or texts[-1] != CLOSING:
        return ""
    return "\n".join(text for text in texts[1:-1] if text is not None)


def replacement_sources(start_seq: int, summary_seq: int, shadowed: Iterable[int]) -> list[int]:
    """Return what a checkpoint cites: its compaction/start, its summary, all that it shadows.

    `summary_seq` may be a self-citation of the append that carries both (DESIGN 3).
    """
    return [start_seq, summary_seq, *shadowed]


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}
