"""The accounts of a compaction: its conservation receipt, and the outcome that follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.projections.checkpoint import checkpoint_message
from surfacelog.projections.compaction_region import check_smaller
from surfacelog.projections.conservation import ConservationReceipt, nodes_digest
from surfacelog.projections.tokens import message_price
from surfacelog.schemas.compaction_outcome import CompactionOutcome
from surfacelog.schemas.json_value import int_member, list_member, text_member

if TYPE_CHECKING:
    from surfacelog.processors.summarizers.protocol import Summary
    from surfacelog.projections.compaction_plan import Nodes, Span
    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.schemas.json_value import JsonValue
    from surfacelog.schemas.records import CompactionRequest


def conservation_receipt(
    request: CompactionRequest,
    compaction_id: str,
    span: Span,
    summary: Summary,
    cut: SurfaceCut,
    duration_ms: int,
) -> ConservationReceipt:
    """Account for a compaction on the Surface as it is right before publishing.

    Raises CompactionFailedError `changed` when span and tail do not stand there one behind the
    other, SummaryTooLargeError when nothing would be gained.
    """
    nodes = surface_nodes(cut)
    first = cut.nodes.index(span.seqs[0]) if span.seqs[0] in cut.nodes else len(nodes)
    behind = first + len(span.nodes)
    tail = nodes[behind : behind + len(span.tail)]
    if nodes[first:behind] != span.nodes or nodes_digest(tail) != nodes_digest(span.tail):
        raise CompactionFailedError("changed", "the Surface changed while it was summarized")
    checkpoint = message_price(checkpoint_message("", summary.blocks, message_id=""))
    check_smaller(checkpoint, span.region)
    return ConservationReceipt(
        compaction_id=compaction_id,
        request_id=request.request_id,
        trigger=request.trigger,
        as_of_seq=cut.as_of_seq,
        generation=cut.generation,
        shadowed_seqs=span.seqs,
        shadowed_digest=nodes_digest(span.nodes),
        shadowed_tokens=span.tokens,
        checkpoint_tokens=checkpoint,
        tokens_before=cut.tokens.surface,
        tail_seqs=tuple(seq for seq, _ in span.tail),
        tail_digest_before=nodes_digest(span.tail),
        tail_digest_after=nodes_digest(tail),
        provider=summary.provider,
        model=summary.model,
        usage=summary.usage,
        duration_ms=duration_ms,
        attempts=summary.attempts,
    )


def compacted(
    request: CompactionRequest, checkpoint_seq: int, receipt: JsonValue
) -> CompactionOutcome:
    """Return the outcome that the data of a conservation receipt tells."""
    generation = int_member(receipt, "generation")
    return CompactionOutcome(
        request_id=request.request_id,
        session_id=request.session_id,
        status="compacted",
        generation=None if generation is None else generation + 1,
        tokens_before=int_member(receipt, "tokensBefore"),
        tokens_after=int_member(receipt, "tokensAfter"),
        compaction_id=text_member(receipt, "compactionId"),
        shadowed=tuple(s for s in list_member(receipt, "shadowedSeqs") if isinstance(s, int)),
        checkpoint_seq=checkpoint_seq,
    )


def unchanged_or_pruned(
    request: CompactionRequest, before: SurfaceCut, after: SurfaceCut, reason: str
) -> CompactionOutcome:
    """Return the outcome of a request that no compaction followed: at most its pruning counts."""
    pruned = after.generation > before.generation
    return CompactionOutcome(
        request_id=request.request_id,
        session_id=request.session_id,
        status="pruned" if pruned else "nothing_to_do",
        generation=after.generation,
        tokens_before=before.tokens.surface,
        tokens_after=after.tokens.surface,
        reason=reason,
    )


def failed(request: CompactionRequest, error: CompactionFailedError) -> CompactionOutcome:
    """Return the outcome of a request that came to nothing."""
    return CompactionOutcome(
        request_id=request.request_id,
        session_id=request.session_id,
        status="failed",
        failure=error.failure,
        reason=error.message,
    )


def surface_nodes(cut: SurfaceCut) -> Nodes:
    """Return the cut's nodes with their messages; None for a node that gives no message.

    Such a node, an empty assistant message, is the only one that costs nothing.
    """
    messages = iter(cut.messages)
    priced = zip(cut.nodes, cut.prices, strict=True)
    return tuple((seq, next(messages) if price else None) for seq, price in priced)
