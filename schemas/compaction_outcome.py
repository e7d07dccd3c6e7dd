"""The outcome of one compaction request, as its waiters read it (DESIGN 7)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from surfacelog.schemas.json_text import dumps, loads

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject

OutcomeStatus = Literal["compacted", "pruned", "nothing_to_do", "failed"]
FailureClass = Literal[
    "busy", "cancelled", "changed", "summary", "commit", "persistence", "orphaned"
]


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """What became of a request.

    `generation` and the token figures (Surface tokens) are those after the outcome;
    `compaction_id`, `shadowed` and `checkpoint_seq` are given when it was compacted,
    `failure` when it failed, and `reason` says in a sentence why nothing was compacted.
    `asked_generation` is the one that the request named.
    """

    request_id: str
    session_id: str
    status: OutcomeStatus
    generation: int | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    compaction_id: str | None = None
    shadowed: tuple[int, ...] = ()
    checkpoint_seq: int | None = None
    failure: FailureClass | None = None
    reason: str | None = None
    asked_generation: int | None = None

    @property
    def advanced(self) -> bool:
        """Whether the Surface was changed since the request was made, by whomever.

        Only then an overflowing request to the model is worth making again (SEMANTICS 6).
        """
        if self.generation is None or self.asked_generation is None:
            return False
        return self.generation > self.asked_generation


def outcome_to_text(outcome: CompactionOutcome) -> str:
    """Return the outcome as JSON text."""
    fields: JsonObject = {**asdict(outcome), "shadowed": list(outcome.shadowed)}
    return dumps(fields)


def outcome_from_text(text: str) -> CompactionOutcome:
    """Return the outcome that `outcome_to_text` spelled."""
    fields: Any = loads(text)
    return CompactionOutcome(**{**fields, "shadowed": tuple(fields["shadowed"])})
