"""The rules of one compaction over a span of the surface (SEMANTICS 6, "region checks").

The span stands on the surface, in order, and parts no tool call from its result. No other
compaction is open. While the summarizer works the session may go on, but what the summary was
made from must still be there when it lands, and the framed summary must cost less than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from surfacelog.projections.pairing import is_balanced
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import SeqRange


class RegionError(SurfacelogError):
    """The span cannot be compacted."""

    code: ClassVar[str] = "region"


class CompactionBusyError(SurfacelogError):
    """Another compaction is open, or a turn where an idle session was asked for."""

    code: ClassVar[str] = "busy"


class SurfaceChangedError(SurfacelogError):
    """What was summarized is no longer what stands on the surface."""

    code: ClassVar[str] = "changed"


class SummaryTooLargeError(SurfacelogError):
    """The framed summary costs no less than what it would shadow."""

    code: ClassVar[str] = "summary"


@dataclass(frozen=True, slots=True)
class PricedSurface:
    """The surface as a compaction sees it: node seqs, prices and pairing deltas, in order."""

    seqs: tuple[int, ...]
    prices: tuple[int, ...]
    deltas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """A span that may be compacted: its nodes' seqs and prices."""

    seqs: tuple[int, ...]
    prices: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """What the span costs."""
        return sum(self.prices)


def select_region(surface: PricedSurface, span: SeqRange) -> Region:
    """Return the nodes of a span; RegionError when it may not be compacted.

    Raises CorruptLogError when the surface holds a result that answers no call.
    """
    for seq in (span.start, span.end):
        if seq not in surface.seqs:
            raise RegionError(f"seq {seq} is not on the surface")
    first, last = surface.seqs.index(span.start), surface.seqs.index(span.end)
    if first > last:
        raise RegionError(f"node {span.start} stands after {span.end}")
    if not is_balanced(surface.deltas, first, last):
        raise RegionError(f"{span.start}..{span.end} parts tool calls from their results")
    return Region(surface.seqs[first : last + 1], surface.prices[first : last + 1])


def check_idle(events: Iterable[JsonObject], *, inside_turn: bool) -> JsonValue:
    """Return the owner of a compaction that starts now: the open turn, or None between turns.

    `inside_turn` says which of the two is asked for. Raises CompactionBusyError when another
    compaction is open (a stale one, before a session/end-seed, is not) or a turn is in the way,
    RegionError when a turn is asked for and none is open.
    """
    turn: JsonValue = None
    compacting = False
    for event in events:
        kind = event.get("type")
        if kind in ("compaction/start", "compaction/end", "session/end-seed"):
            compacting = kind == "compaction/start"
        elif kind in ("turn/start", "turn/end"):
            turn = member(event.get("data"), "turn") if kind == "turn/start" else None
    if compacting:
        raise CompactionBusyError("another compaction of this session is open")
    if inside_turn and turn is None:
        raise RegionError("no turn is open: an automatic compaction belongs to one")
    if not inside_turn and turn is not None:
        raise CompactionBusyError(f"turn {turn} is open: this compaction waits for an idle session")
    return turn


def check_unchanged(region: Region, span: SeqRange, surface: PricedSurface) -> None:
    """Raise SurfaceChangedError unless the span still has the nodes that were summarized.

    What was appended meanwhile stands behind it and does not matter.
    """
    try:
        now = select_region(surface, span)
    except RegionError as error:
        raise SurfaceChangedError(f"the span is gone: {error.message}") from error
    if now != region:
        raise SurfaceChangedError("the span has other nodes than those that were summarized")


def check_whole_surface(before: PricedSurface, now: PricedSurface) -> None:
    """Raise SurfaceChangedError when anything at all changed on the surface."""
    if (before.seqs, before.prices) != (now.seqs, now.prices):
        raise SurfaceChangedError("the surface changed while the summary was made")


def check_smaller(checkpoint_tokens: int, region: Region) -> None:
    """Raise SummaryTooLargeError unless the checkpoint costs less than what it shadows."""
    if checkpoint_tokens >= region.tokens:
        raise SummaryTooLargeError(
            f"the checkpoint costs {checkpoint_tokens} tokens, what it shadows {region.tokens}"
        )


def summarizer_prefix(header: JsonObject | None, messages: Sequence[JsonObject]) -> JsonObject:
    """Return what a summarizer reads: the conversation's own system prompt, tools and messages.

    Being a prefix of the conversation's requests, it keeps a provider's prefix cache warm.
    """
    prefix: JsonObject = {
        name: header[name] for name in ("system", "tools") if header is not None and name in header
    }
    return {**prefix, "messages": list(messages)}
