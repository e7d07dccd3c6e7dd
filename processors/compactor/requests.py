"""From a request to its outcome: once, whoever else works on the same session (DESIGN 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surfacelog.processors.compactor.accounts import (
    compacted,
    failed,
    surface_nodes,
    unchanged_or_pruned,
)
from surfacelog.processors.compactor.condition import tokens_to_retain
from surfacelog.processors.compactor.events import RECEIPT_PLACE
from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.processors.compactor.lock import session_lock
from surfacelog.processors.compactor.one_compaction import OneCompaction
from surfacelog.processors.compactor.pressure_rounds import PressureRounds
from surfacelog.processors.compactor.prune import prune
from surfacelog.processors.compactor.takeover import end_orphan
from surfacelog.projections.checkpoint import checkpoint_of
from surfacelog.projections.compaction_plan import NothingToCompactError
from surfacelog.projections.compaction_policy import PolicyError
from surfacelog.projections.visibility import VisibilityTimeout
from surfacelog.schemas.errors import NotFoundError
from surfacelog.schemas.failpoints import failpoint
from surfacelog.schemas.json_value import int_member, text_member

if TYPE_CHECKING:
    from surfacelog.processors.compactor.lock import SessionLock
    from surfacelog.processors.compactor.one_compaction import Tools
    from surfacelog.processors.compactor.outcomes import Outcomes
    from surfacelog.projections.keys import Keys
    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.projections.redis_calls import RedisCalls
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.records import CompactionRequest


@dataclass(frozen=True, slots=True)
class Requests:
    """Carries out requests and records their outcomes."""

    tools: Tools
    calls: RedisCalls
    keys: Keys
    outcomes: Outcomes

    async def carry_out(self, request: CompactionRequest) -> CompactionOutcome:
        """Return the request's outcome, at once when it has one already; it is recorded by then.

        Raises CompactionFailedError or ServiceError when there is none yet and the request is to
        be carried out again, InterruptedCallError when the worker stops before its turn has come.
        """
        outcome = await self.outcomes.find(request)
        if outcome is not None:
            return outcome
        key, ttl = self.keys.lock(request.session_id), self.tools.settings.compactor_lock_seconds
        async with session_lock(self.calls, key, ttl, self.tools.stopping) as lock:
            failpoint("compactor-locked")
            outcome = await self.outcomes.find(request)
            if outcome is None:
                outcome = await self._decide(request, lock)
                await self.outcomes.record(request, outcome)
        return outcome

    async def give_up(self, request: CompactionRequest) -> CompactionOutcome:
        """Record that a request cannot be carried out, whatever it was that went wrong."""
        error = CompactionFailedError("persistence", "the compactor failed: see its log")
        outcome = failed(request, error)
        await self.outcomes.record(request, outcome)
        return outcome

    async def _decide(self, request: CompactionRequest, lock: SessionLock) -> CompactionOutcome:
        try:
            cut = await end_orphan(await self.tools.surface.read(request.session_id), self.tools)
        except NotFoundError as error:
            if await self.tools.log.holds(request.session_id):
                raise _not_visible(error) from error
            return failed(request, CompactionFailedError("changed", error.message))
        before = cut
        try:
            landed = await self._landed(request, cut)
            if landed is not None:
                return landed
            retain = tokens_to_retain(request, cut, self.tools.policies)
            if request.trigger != "manual":
                cut = await prune(cut, self.tools)
            if request.trigger == "pressure":
                return await PressureRounds(request, lock, self.tools).run(cut)
            return await OneCompaction(request, lock, self.tools).run(cut, retain)
        except (NothingToCompactError, PolicyError) as error:
            return unchanged_or_pruned(request, before, cut, error.message)
        except CompactionFailedError as error:
            if error.repeat:
                raise
            return failed(request, error)
        except VisibilityTimeout as error:
            raise _not_visible(error) from error

    async def _landed(
        self, request: CompactionRequest, cut: SurfaceCut
    ) -> CompactionOutcome | None:
        """Return what this request led to before a worker died that could not tell any more.

        Raises NothingToCompactError when another compaction came first: the wish is fulfilled.
        """
        if cut.generation <= request.generation:
            return None
        for seq, message in surface_nodes(cut):
            if message is not None and checkpoint_of(message) is not None:
                receipt = await self.tools.log.data(request.session_id, seq + RECEIPT_PLACE)
                if text_member(receipt, "requestId") == request.request_id:
                    return compacted(request, seq, receipt)
                if (int_member(receipt, "generation") or 0) >= request.generation:
                    raise NothingToCompactError(
                        "the session was compacted after this was asked for"
                    )
        return None


def _not_visible(error: NotFoundError | VisibilityTimeout) -> CompactionFailedError:
    """Redis was emptied, or the projector is away: it will show the session again."""
    return CompactionFailedError("persistence", error.message, repeat=True)
