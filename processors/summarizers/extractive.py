"""The default summarizer: deterministic, offline, made of the events themselves (DESIGN 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.processors.summarizers.extraction import Items, extract
from surfacelog.processors.summarizers.protocol import Summary
from surfacelog.projections.compaction_plan import EMPTY_CHECKPOINT_TOKENS
from surfacelog.projections.summary_sections import render, render_item
from surfacelog.schemas.utf16 import utf16_length

if TYPE_CHECKING:
    from surfacelog.processors.summarizers.protocol import SummaryRequest
    from surfacelog.projections.summary_sections import Section

PROVIDER: Final = "surfacelog"
MODEL: Final = "extractive"

# Shares of the budget, the sections that matter most first: what one leaves goes to the next.
_SHARES: Final[tuple[tuple[Section, float], ...]] = (
    ("Primary request and intent", 0.30),
    ("Pending jobs", 0.12),
    ("Next step", 0.05),
    ("Current work", 0.13),
    ("Errors and fixes", 0.12),
    ("Files and code", 0.15),
    ("Critical context", 0.10),
    ("Key technical concepts", 0.03),
)
_CUT: Final = " [... cut ...] "
_SMALLEST_CUT: Final = 80  # UTF-16 units; a shorter remnant of an item says nothing


class ExtractiveSummarizer:
    """Quotes the span: last user requests, files and commands, errors, todos, current work.

    A checkpoint costs at most half of what it shadows and never more than `max_tokens`, so it
    stays bounded however often a session is compacted.
    """

    @property
    def identity(self) -> str:
        """The name of the summarizer; the request holds all that its result depends on."""
        return f"{PROVIDER}/{MODEL}/1"

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Return the summary at once: there is nothing to wait for and nothing that can fail."""
        limit = min(request.max_tokens, request.shadowed_tokens // 2)
        text = summary_text(extract(request), limit)
        return Summary(blocks=({"type": "text", "text": text},), provider=PROVIDER, model=MODEL)


def summary_text(items: Items, limit: int) -> str:
    """Return the summary that costs, framed, at most `limit` tokens, or the empty one."""
    budget = 4 * (limit - EMPTY_CHECKPOINT_TOKENS)
    fitted: Items = {}
    allowance = 0.0
    for section, share in _SHARES:
        allowance += share * max(0, budget)
        fitted[section], used = _fit(_by_worth(section, items.get(section, [])), int(allowance))
        allowance -= used
    return render(fitted)


def _by_worth(section: Section, items: list[str]) -> list[tuple[int, str]]:
    """Return the items with their places, newest first; the very first request comes second."""
    placed = list(enumerate(items))[::-1]
    if section == "Primary request and intent" and len(placed) > 2:
        placed.insert(1, placed.pop())
    return placed


def _fit(placed: list[tuple[int, str]], allowance: int) -> tuple[list[str], int]:
    """Keep what the allowance pays for, in its old order; cut the first item that it does not."""
    kept: list[tuple[int, str]] = []
    used = 0
    for place, item in placed:
        fitting = _shorten(item, allowance - used)
        if fitting:
            kept.append((place, fitting))
            used += _cost(fitting)
        if fitting != item:
            break
    return [item for _, item in sorted(kept)], used


def _shorten(item: str, allowance: int) -> str:
    """Return the item, or its beginning and end, or nothing; rendered within the allowance."""
    if _cost(item) <= allowance:
        return item
    room = allowance
    while room >= _SMALLEST_CUT:
        # Some characters cost two units and line ends three: smaller until it fits.
        side = (room - len(_CUT)) // 2
        cut = item[:side].rstrip() + _CUT + item[-side:].lstrip()
        if _cost(cut) <= allowance:
            return cut
        room = room * 3 // 4
    return ""


def _cost(item: str) -> int:
    """Return the UTF-16 units of a rendered item and its line end: four make a token."""
    return utf16_length(render_item(item)) + 1
