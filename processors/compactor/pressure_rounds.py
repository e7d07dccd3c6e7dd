"""Pressure: compact until a session is below its threshold, or say that it cannot be (SEMANTICS 6).

One compaction may not be enough: while a model summarizes, the agent goes on writing. And it may
be of no use: a system prompt, tools and a last message that alone fill the window stay. Then one
event says so in the log, and nobody asks again until something changes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from surfacelog.processors.compactor.appends import SessionAppends
from surfacelog.processors.compactor.condition import pressure_budget
from surfacelog.processors.compactor.events import no_progress_event
from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.processors.compactor.one_compaction import OneCompaction
from surfacelog.projections.compaction_plan import NothingToCompactError
from surfacelog.schemas.clock import now_ms

if TYPE_CHECKING:
    from surfacelog.processors.compactor.lock import SessionLock
    from surfacelog.processors.compactor.one_compaction import Tools
    from surfacelog.projections.compaction_policy import CompactionBudget
    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.records import CompactionRequest

_log = structlog.get_logger()


class PressureRounds:
    """Carries out one pressure request, under the session's lock."""

    def __init__(self, request: CompactionRequest, lock: SessionLock, tools: Tools) -> None:
        self._request = request
        self._lock = lock
        self._tools = tools

    async def run(self, cut: SurfaceCut) -> CompactionOutcome:
        """Compact what the cut shows, and again what is left; return the outcome of all rounds.

        Raises what `OneCompaction.run` raises, as long as nothing has landed.
        """
        scaled = pressure_budget(cut, self._tools.policies)
        landed: CompactionOutcome | None = None
        for _ in range(1 + self._tools.policies.in_force(cut.header).compaction_retries):
            try:
                _check_envelope(cut, scaled)
                outcome = await OneCompaction(self._request, self._lock, self._tools).run(
                    cut, scaled.retain
                )
            except NothingToCompactError as error:
                await self._note_no_progress(cut, scaled, error.message)
                if landed is None:
                    raise
                return landed
            except CompactionFailedError as error:
                if landed is None or error.repeat:
                    raise
                return replace(landed, reason=f"a further round failed: {error.message}")
            before = outcome.tokens_before if landed is None else landed.tokens_before
            landed = replace(outcome, tokens_before=before)
            cut = await self._after(outcome)
            if cut.tokens.total is None or cut.tokens.total < scaled.threshold:
                return landed
        await self._note_no_progress(cut, scaled, "the session is still over its threshold")
        assert landed is not None  # there is at least one round
        return landed

    async def _after(self, outcome: CompactionOutcome) -> SurfaceCut:
        assert outcome.checkpoint_seq is not None
        return await self._tools.surface_at(self._request.session_id, outcome.checkpoint_seq)

    async def _note_no_progress(
        self, cut: SurfaceCut, scaled: CompactionBudget, reason: str
    ) -> None:
        """Append the event, unless a replacement has come meanwhile: then it may not be true."""
        now = now_ms()
        event = no_progress_event(self._request, cut, scaled.threshold, reason, now)
        try:
            with SessionAppends(self._tools.sender, cut.session_id) as appends:
                await appends.append([event], generation=cut.generation)
        except CompactionFailedError as error:
            if error.repeat:
                raise
            _log.info("no progress not noted", session=cut.session_id, reason=error.message)


def _check_envelope(cut: SurfaceCut, scaled: CompactionBudget) -> None:
    """Raise NothingToCompactError when what always stays is over the threshold by itself."""
    envelope = cut.tokens.header + (cut.prices[-1] if cut.prices else 0)
    if envelope >= scaled.threshold:
        raise NothingToCompactError(
            f"system prompt, tools and the last message alone cost {envelope} tokens, of a"
            f" threshold of {scaled.threshold}"
        )
