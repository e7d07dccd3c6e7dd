"""Whether a request's condition still holds, and how much of the session it leaves (SEMANTICS 6).

The worker looks at the session, not at the request's age.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.projections.compaction_plan import NothingToCompactError
from surfacelog.projections.compaction_policy import budget
from surfacelog.projections.pressure import Load, stands
from surfacelog.schemas.json_value import whole_member

if TYPE_CHECKING:
    from surfacelog.projections.compaction_policy import CompactionBudget, CompactionPolicies
    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.schemas.records import CompactionRequest


def tokens_to_retain(
    request: CompactionRequest, cut: SurfaceCut, policies: CompactionPolicies
) -> int:
    """Return what the tail that stays is worth; NothingToCompactError when nothing is to be done.

    Manual requests say it themselves, an overflow leaves only the last node, and pressure is
    there while the measured context reaches the threshold of the model's window. Raises
    PolicyError when a policy leaves no room in that window.
    """
    if request.trigger != "pressure":
        return request.retain_tokens or 0
    return pressure_budget(cut, policies).retain


def pressure_budget(cut: SurfaceCut, policies: CompactionPolicies) -> CompactionBudget:
    """Return the budget of a session that is over its threshold.

    Raises NothingToCompactError when it is not, or when no compaction could help before and
    nothing has changed since; PolicyError.
    """
    window = whole_member(cut.context, "contextWindow")
    if window is None or cut.tokens.total is None:
        raise NothingToCompactError("the context cannot be measured against the model's window")
    scaled = budget(policies.in_force(cut.header), window)
    if cut.tokens.total < scaled.threshold:
        raise NothingToCompactError(
            f"the context has {cut.tokens.total} tokens, below the threshold of {scaled.threshold}"
        )
    if stands(cut.pressure, _load(cut), scaled):
        raise NothingToCompactError(
            "no compaction could bring the context below its threshold, and nothing has changed"
        )
    return scaled


def _load(cut: SurfaceCut) -> Load:
    return Load(cut.tokens.total, cut.tokens.surface, cut.tokens.header, cut.generation)
