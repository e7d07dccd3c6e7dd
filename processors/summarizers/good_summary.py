"""Telling a summary from what only looks like one (SEMANTICS 6)."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from surfacelog.processors.summarizers.protocol import SummaryError
from surfacelog.projections.checkpoint import checkpoint_message
from surfacelog.projections.summary_sections import missing_sections, parse
from surfacelog.projections.tokens import message_price

if TYPE_CHECKING:
    from surfacelog.processors.summarizers.openai_answer import ChatAnswer

_ENDED_WELL: Final = ("stop", "tool_calls", "function_call")
_INLINE_IMAGE: Final = "data:image/"

LOOP_WINDOW: Final = 2000  # bytes
LOOP_RATIO: Final = 0.08
"""Prose and lists compress to a third, hardly ever below a seventh; a loop to almost nothing."""


def summary_text(answer: ChatAnswer, shadowed_tokens: int) -> str:
    """Return the text of an answer that is a good summary; SummaryError says why it is not.

    Its framed price must be below `shadowed_tokens`. Calls of tools beside it are left out.
    """
    _check_ended_well(answer)
    text = answer.text.strip()
    if answer.has_image or _INLINE_IMAGE in text:
        raise SummaryError("the answer holds an image, and a summary is text")
    if not text:
        raise SummaryError(f"the answer has no text, only {_what_else(answer)}")
    _check_sections(text)
    if repeats(text):
        raise SummaryError("the answer says the same again and again")
    checkpoint = checkpoint_message("", ({"type": "text", "text": text},), message_id="")
    price = message_price(checkpoint)
    if price >= shadowed_tokens:
        raise SummaryError(
            f"the checkpoint costs {price} tokens, what it shadows {shadowed_tokens}"
        )
    return text


def repeats(text: str) -> bool:
    """Tell whether some part of the text is a loop: it says hardly anything for its length."""
    encoded = text.encode(errors="replace")
    starts = range(0, max(1, len(encoded) - LOOP_WINDOW + 1), LOOP_WINDOW // 2)
    windows = [encoded[start : start + LOOP_WINDOW] for start in starts]
    windows.append(encoded[-LOOP_WINDOW:])
    return any(
        len(zlib.compress(window, 9)) < LOOP_RATIO * LOOP_WINDOW
        for window in windows
        if len(window) == LOOP_WINDOW
    )


def _check_ended_well(answer: ChatAnswer) -> None:
    if answer.refusal:
        raise SummaryError(f"the model refused: {answer.refusal}")
    if answer.finish == "length":
        raise SummaryError("the answer was cut off at its token limit")
    if answer.finish not in _ENDED_WELL:
        raise SummaryError(f"the answer ended for the reason {answer.finish!r}")


def _what_else(answer: ChatAnswer) -> str:
    kinds = {str(block["type"]) for block in answer.blocks()} - {"text"}
    return " and ".join(sorted(kinds)) or "blanks"


def _check_sections(text: str) -> None:
    missing = missing_sections(text)
    if missing:
        raise SummaryError(f"the answer is no summary: it lacks the sections {', '.join(missing)}")
    if not any(parse(text).values()):
        raise SummaryError("the summary says nothing in any of its sections")
