"""One compaction of one session, from compaction/start to compaction/end (DESIGN 7).

The log decides: compaction/start is its own lock, the checkpoint lands together with its
summary, its receipt and its end or not at all, and a failure after the start leaves exactly one
compaction/end. The lock in Redis only keeps two workers from paying for the same summary.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from surfacelog.processors.compactor.accounts import (
    compacted,
    conservation_receipt,
    surface_nodes,
)
from surfacelog.processors.compactor.appends import SessionAppends
from surfacelog.processors.compactor.events import (
    Opening,
    failed_end_event,
    publication,
    start_event,
)
from surfacelog.processors.compactor.failures import CompactionFailedError, classified
from surfacelog.processors.compactor.interruption import InterruptedCallError, unless
from surfacelog.processors.summarizers.protocol import SummaryRequest
from surfacelog.projections.compaction_plan import choose_span
from surfacelog.projections.redis_calls import RedisUnavailableError
from surfacelog.schemas.clock import now_ms
from surfacelog.schemas.failpoints import failpoint
from surfacelog.schemas.json_value import text_member

if TYPE_CHECKING:
    from surfacelog.processors.compactor.appends import Sender
    from surfacelog.processors.compactor.bracket_watch import BracketWatch
    from surfacelog.processors.compactor.lock import SessionLock
    from surfacelog.processors.compactor.span_log import SpanLog
    from surfacelog.processors.summarizers.protocol import Summarizer, Summary
    from surfacelog.projections.compaction_plan import Span
    from surfacelog.projections.compaction_policy import CompactionPolicies
    from surfacelog.projections.reader import SurfaceCut, SurfaceReader
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.records import CompactionRequest
    from surfacelog.schemas.settings import Settings

PLANS: Final = 3
"""How often a span is chosen when the Surface changes between the read and the start."""

VISIBLE_SECONDS: Final = 60.0
"""How long the projection may take to show what a compaction has appended."""

READ_AGAIN_SECONDS: Final = 0.2

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Tools:
    """What compactions work with. `stopping` is set when the worker is told to stop."""

    settings: Settings
    surface: SurfaceReader
    log: SpanLog
    sender: Sender
    brackets: BracketWatch
    summarizer: Summarizer
    policies: CompactionPolicies
    stopping: asyncio.Event

    async def surface_at(self, session_id: str, seq: int) -> SurfaceCut:
        """Return the Surface as soon as it includes a seq; raises as `SurfaceReader.read`."""
        return await self.surface.read(session_id, at_least=seq, timeout=VISIBLE_SECONDS)


@dataclass(frozen=True, slots=True)
class Plan:
    """The span that was chosen on the cut, and the bracket that stands open for it."""

    cut: SurfaceCut
    span: Span
    opening: Opening
    start_seq: int


class OneCompaction:
    """Compacts a session for one request, under the session's lock."""

    def __init__(self, request: CompactionRequest, lock: SessionLock, tools: Tools) -> None:
        self._request = request
        self._session_id = request.session_id
        self._lock = lock
        self._tools = tools
        self._appends = SessionAppends(tools.sender, request.session_id)
        self._began = time.monotonic()

    async def run(self, cut: SurfaceCut, retain_tokens: int) -> CompactionOutcome:
        """Compact what the cut shows but a tail of `retain_tokens`, and return the outcome.

        Raises NothingToCompactError before anything was written, and CompactionFailedError; if
        that came after the start, the bracket was ended with its class.
        """
        with self._appends:
            plan = await self._start(cut, retain_tokens)
            try:
                failpoint("compactor-started")
                return await self._publish(plan, await self._summarize(plan))
            except Exception as error:
                failure = classified(error)
                if failure.failure == "orphaned":
                    failure = await self._why_closed(plan)
                else:
                    await self._end(plan.opening, failure)
                raise failure from error

    async def _start(self, cut: SurfaceCut, retain_tokens: int) -> Plan:
        """Choose a span and append compaction/start, if the Surface is still at its generation."""
        for _ in range(PLANS):
            if self._tools.stopping.is_set():
                raise _told_to_stop()
            span = choose_span(surface_nodes(cut), cut.prices, retain_tokens, self._request.range)
            opening = Opening(uuid.uuid4().hex, cut.open_turn)
            try:
                start = start_event(opening, now_ms())
                start_seq = await self._appends.append([start], generation=cut.generation)
                return Plan(cut, span, opening, start_seq)
            except CompactionFailedError as error:
                if error.failure != "changed":
                    raise
            # The log is ahead of the cut, or the append would not have been refused.
            cut = await self._tools.surface.read(self._session_id, at_least=cut.as_of_seq + 1)
        raise CompactionFailedError("changed", f"the Surface changed {PLANS} times before a start")

    async def _summarize(self, plan: Plan) -> Summary:
        span = plan.span
        facts = await self._tools.log.facts(self._session_id, min(span.seqs), plan.cut.as_of_seq)
        policy = self._tools.policies.in_force(plan.cut.header)
        request = SummaryRequest(
            session_id=self._session_id,
            header=plan.cut.header,
            messages=span.messages,
            facts=facts,
            shadowed_tokens=span.tokens,
            max_tokens=policy.max_tokens,
            model=policy.summarization_model,
        )
        try:
            return await unless(
                self._tools.summarizer.summarize(request),
                self._lock.lost.wait(),
                self._tools.stopping.wait(),
                self._tools.brackets.closed(
                    self._session_id, plan.opening.compaction_id, plan.start_seq
                ),
            )
        except InterruptedCallError as error:
            self._lock.check()
            if self._tools.stopping.is_set():
                raise _told_to_stop() from error
            raise CompactionFailedError("orphaned", "the log closed the bracket") from error

    async def _publish(self, plan: Plan, summary: Summary) -> CompactionOutcome:
        """Append summary, checkpoint, receipt and end: all of them, in this order, or nothing."""
        cut = await self._surface_now(plan.start_seq)
        duration_ms = int((time.monotonic() - self._began) * 1000)
        receipt = conservation_receipt(
            self._request, plan.opening.compaction_id, plan.span, summary, cut, duration_ms
        )
        events = publication(
            plan.opening,
            plan.start_seq,
            summary,
            receipt,
            message_id=uuid.uuid4().hex,
            time=now_ms(),
        )
        self._lock.check()
        failpoint("compactor-publishing")
        first_seq = await self._appends.append(events)
        failpoint("compactor-published")
        return compacted(self._request, first_seq + 1, receipt.to_data())

    async def _surface_now(self, at_least: int) -> SurfaceCut:
        """Read the Surface; a Redis that is restarted is waited for as long as a lock lives."""
        patience = time.monotonic() + self._tools.settings.compactor_lock_seconds
        while True:
            self._lock.check()
            try:
                return await self._tools.surface_at(self._session_id, at_least)
            except RedisUnavailableError as error:
                if time.monotonic() > patience:
                    raise
                _log.warning("surface not read", session=self._session_id, reason=error.message)
                await asyncio.sleep(READ_AGAIN_SECONDS)

    async def _end(self, opening: Opening, failure: CompactionFailedError) -> None:
        """Close the own bracket; refused when someone else has closed it, which is as good."""
        event = failed_end_event(opening, now_ms(), failure.message, failure.failure, failure.cost)
        try:
            await self._appends.append([event])
        except CompactionFailedError as error:
            _log.warning("bracket not ended", session=self._session_id, reason=str(error))

    async def _why_closed(self, plan: Plan) -> CompactionFailedError:
        """Return what it means for the request that someone else closed the bracket.

        An operator has cancelled it: that is its outcome. A worker that took over, or a new owner,
        has only ended this attempt.
        """
        end = await self._tools.log.compaction_end(
            self._session_id, plan.opening.compaction_id, plan.start_seq
        )
        why = text_member(end, "error") or "a session/end-seed made it stale"
        if text_member(end, "errorClass") == "cancelled":
            return CompactionFailedError("cancelled", why)
        return CompactionFailedError("orphaned", f"ended by someone else: {why}", repeat=True)


def _told_to_stop() -> CompactionFailedError:
    return CompactionFailedError("cancelled", "the worker was told to stop", repeat=True)
