"""The events of one compaction, as its worker appends them (SEMANTICS 2, DESIGN 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from surfacelog.projections.checkpoint import checkpoint_message, replacement_sources
from surfacelog.schemas.event_types import COMPACTION_RECEIPT, NO_PROGRESS

if TYPE_CHECKING:
    from surfacelog.processors.summarizers.protocol import Summary
    from surfacelog.projections.conservation import ConservationReceipt
    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.schemas.compaction_outcome import FailureClass
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import CompactionRequest

RECEIPT_PLACE: Final = 1
"""A compaction's receipt follows its checkpoint: this many seqs later in the same append."""

_SUMMARY_PLACE: Final = 0


@dataclass(frozen=True, slots=True)
class Opening:
    """What every event of a compaction repeats; `turn` was open at the read, None when none was."""

    compaction_id: str
    turn: int | None
    source_command_id: str | None = None

    def members(self) -> JsonObject:
        """Return the ids as members of an event's data."""
        members: JsonObject = {"compactionId": self.compaction_id}
        if self.source_command_id is not None:
            members["sourceCommandId"] = self.source_command_id
        return members


def start_event(opening: Opening, time: int) -> JsonObject:
    """Return compaction/start: the log's own lock."""
    return _event("compaction/start", time, {**opening.members(), "turn": opening.turn})


def failed_end_event(
    opening: Opening,
    time: int,
    error: str,
    error_class: FailureClass,
    cost: JsonObject | None = None,
) -> JsonObject:
    """Return the compaction/end of a compaction that failed after its start.

    `cost` says what a model was paid all the same: provider, model, usage, attempts.
    """
    data = {**opening.members(), "turn": opening.turn, "error": error, "errorClass": error_class}
    return _event("compaction/end", time, data if cost is None else {**data, "cost": cost})


def publication(
    opening: Opening,
    start_seq: int,
    summary: Summary,
    receipt: ConservationReceipt,
    *,
    message_id: str,
    time: int,
) -> tuple[JsonObject, ...]:
    """Return the one append that lands a compaction: summary, checkpoint, receipt, end."""
    span = (receipt.shadowed_seqs[0], receipt.shadowed_seqs[-1])
    checkpoint: JsonObject = {
        **_event(
            "user/message",
            time,
            checkpoint_message(
                opening.compaction_id,
                summary.blocks,
                message_id=message_id,
                source_command_id=opening.source_command_id,
            ),
        ),
        "sourceEventSeqs": [
            *replacement_sources(start_seq, -1 - _SUMMARY_PLACE, receipt.shadowed_seqs)
        ],
        "surfaceOp": {"op": "replace", "start": span[0], "end": span[1]},
    }
    return (
        _event("compaction/summary", time, _summary_data(opening, summary, receipt)),
        checkpoint,
        {**_event(COMPACTION_RECEIPT, time, receipt.to_data()), "ignorable": True},
        _event("compaction/end", time, {**opening.members(), "turn": opening.turn}),
    )


def no_progress_event(
    request: CompactionRequest, cut: SurfaceCut, threshold: int, reason: str, time: int
) -> JsonObject:
    """Return the event that says that no compaction brings a session below its threshold."""
    data: JsonObject = {
        "requestId": request.request_id,
        "asOfSeq": cut.as_of_seq,
        "generation": cut.generation,
        "reason": reason,
        "thresholdTokens": threshold,
        "totalTokens": cut.tokens.total,
        "surfaceTokens": cut.tokens.surface,
        "headerTokens": cut.tokens.header,
        "lastNodeTokens": cut.prices[-1] if cut.prices else 0,
    }
    return {**_event(NO_PROGRESS, time, data), "ignorable": True}


def _summary_data(opening: Opening, summary: Summary, receipt: ConservationReceipt) -> JsonObject:
    data: JsonObject = {**opening.members(), "summary": list(summary.blocks)}
    if summary.raw_output is not None:
        data |= {"rawOutput": list(summary.raw_output), "llmStreamCall": True}
    data["shadowedRange"] = {"start": receipt.shadowed_seqs[0], "end": receipt.shadowed_seqs[-1]}
    data["shadowedSeqs"] = list(receipt.shadowed_seqs)
    data["shadowedTokenCount"] = receipt.shadowed_tokens
    data |= {"provider": summary.provider, "model": summary.model}
    if summary.max_tokens is not None:
        data["maxTokens"] = summary.max_tokens
    if summary.usage is not None:
        data["usage"] = summary.usage
    return data


def _event(kind: str, time: int, data: JsonObject) -> JsonObject:
    return {"type": kind, "time": time, "data": data}
