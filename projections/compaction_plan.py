"""What one compaction would shadow: the span, what it costs, and the tail that must not change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from surfacelog.projections.checkpoint import checkpoint_message, checkpoint_of
from surfacelog.projections.compaction_range import compactable_range
from surfacelog.projections.compaction_region import PricedSurface, RegionError, select_region
from surfacelog.projections.messages import tool_call_blocks
from surfacelog.projections.summary_sections import render
from surfacelog.projections.tokens import message_price
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.json_value import object_member
from surfacelog.schemas.records import SeqRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.projections.compaction_region import Region
    from surfacelog.schemas.json_value import JsonObject

Nodes = tuple[tuple[int, "JsonObject | None"], ...]


class NothingToCompactError(SurfacelogError):
    """No span of the Surface can be, or is worth being, compacted."""

    code: ClassVar[str] = "nothing_to_do"


@dataclass(frozen=True, slots=True)
class Span:
    """A balanced span of the Surface and the tail behind it.

    `nodes`, those of the region, and `tail` are (seq, message) in surface order.
    """

    region: Region
    nodes: Nodes
    tail: Nodes

    @property
    def range(self) -> SeqRange:
        """The first and the last node."""
        return SeqRange(self.nodes[0][0], self.nodes[-1][0])

    @property
    def seqs(self) -> tuple[int, ...]:
        """The node seqs in surface order."""
        return self.region.seqs

    @property
    def tokens(self) -> int:
        """What the span costs."""
        return self.region.tokens

    @property
    def messages(self) -> tuple[JsonObject, ...]:
        """The span's messages; a node without a message gives none."""
        return tuple(message for _, message in self.nodes if message is not None)


EMPTY_CHECKPOINT_TOKENS: Final = message_price(
    checkpoint_message("", ({"type": "text", "text": render({})},), message_id="")
)
"""What a checkpoint costs whose every section says "(none)"."""


def choose_span(
    nodes: Nodes, prices: Sequence[int], retain_tokens: int, wanted: SeqRange | None = None
) -> Span:
    """Return the span to compact: `wanted`, or all but a tail of about `retain_tokens`.

    The span never parts a tool call from its results (SEMANTICS 5). Raises NothingToCompactError
    when there is no such span, when it costs no more than a checkpoint that says nothing, and
    when there is nothing in it but a checkpoint.
    """
    deltas = [_pairing_delta(message) for _, message in nodes]
    seqs = [seq for seq, _ in nodes]
    chosen = wanted or compactable_range(seqs, prices, deltas, retain_tokens)
    if chosen is None:
        raise NothingToCompactError(
            "nothing can be compacted: the last node stays, and no cut before it is balanced"
        )
    try:
        region = select_region(PricedSurface(tuple(seqs), tuple(prices), tuple(deltas)), chosen)
    except RegionError as error:
        raise NothingToCompactError(error.message) from error
    if region.tokens <= EMPTY_CHECKPOINT_TOKENS:
        raise NothingToCompactError(
            f"the span costs {region.tokens} tokens and the smallest checkpoint"
            f" {EMPTY_CHECKPOINT_TOKENS}: nothing would be gained"
        )
    first = seqs.index(chosen.start)
    behind = first + len(region.seqs)
    span = Span(region, nodes[first:behind], nodes[behind:])
    if all(checkpoint_of(message) is not None for message in span.messages):
        raise NothingToCompactError("the span is a checkpoint already: nothing was added to it")
    return span


def _pairing_delta(message: JsonObject | None) -> int:
    """Return what a node adds to the count of unanswered calls, told by its message alone."""
    source = object_member(message, "source")
    if source.get("kind") == "tool":
        return -1
    return len(tool_call_blocks(message)) if message and source.get("kind") == "model" else 0
