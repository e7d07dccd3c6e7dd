"""Asks for a compaction when a session passes its threshold (DESIGN 7).

One request for each attempt, whatever happens in between: the request is on its topic before the
flag is in Redis and before the position passes the append that led to it, so a crash repeats the
look and not the request; its id follows from the log, so that a repeated one would be the same
request for the compactors; and appends that are only replayed are not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from surfacelog.processors.projector import metrics
from surfacelog.projections.compaction_policy import PolicyError
from surfacelog.projections.pressure import Asked, Later, Pending
from surfacelog.schemas.clock import now_ms
from surfacelog.schemas.errors import ServiceError
from surfacelog.schemas.records import CompactionRequest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tenacity import RetryCallState

    from surfacelog.processors.projector.applier import Applier
    from surfacelog.processors.projector.asked_requests import AskedRequests
    from surfacelog.processors.projector.patience import PatientRedis
    from surfacelog.producers.compaction_client import CompactionClient
    from surfacelog.projections.pressure import Attempt, PressureTrigger
    from surfacelog.projections.session_view import SessionView
    from surfacelog.projections.store import SurfaceStore

DUE_AT_ONCE: Final = 100
REQUESTED_BY: Final = "projector"

_log = structlog.get_logger()


class PressureWatch:
    """Looks at sessions in which something settled. The caller holds `Partitions.turn`."""

    def __init__(
        self,
        trigger: PressureTrigger,
        applier: Applier,
        redis: PatientRedis,
        store: SurfaceStore,
        client: CompactionClient,
        asked: AskedRequests,
    ) -> None:
        self._trigger = trigger
        self._applier = applier
        self._redis = redis
        self._store = store
        self._client = client
        self._asked = asked

    async def look(self, partition: int, session_ids: Iterable[str]) -> set[str]:
        """Ask for what these sessions need; return those that are to be looked at later.

        When that is stands in Redis by then. Waits for Kafka and Redis as long as it takes.
        """
        now = now_ms()
        views = await self._applier.views(partition, session_ids)
        decided = [(view, self._decide(view, now)) for view in views]
        over = await self._over(
            partition, {v.session_id: d for v, d in decided if isinstance(d, Pending)}
        )
        later: dict[str, int] = {}
        due: list[tuple[SessionView, Asked]] = []
        for view, first in decided:
            is_over = view.session_id in over
            decision = self._decide(view, now, is_over=True) if is_over else first
            if isinstance(decision, Later):
                later[view.session_id] = decision.at
            elif isinstance(decision, Pending):
                later[view.session_id] = decision.again
            elif decision is not None:
                later[view.session_id] = self._trigger.overdue_at(decision)
                due.append((view, decision))
        if due:
            await self._ask(partition, due)
        retries = self._store.keys.retries(partition)
        await self._redis.run([("ZADD", retries, at, s) for s, at in later.items()])
        return set(later)

    async def look_at_due(self, partition: int) -> None:
        """Look again at the sessions whose pause after a failure is over."""
        retries, now = self._store.keys.retries(partition), now_ms()
        (found,) = await self._redis.run(
            [("ZRANGEBYSCORE", retries, "-inf", now, "LIMIT", 0, DUE_AT_ONCE)]
        )
        due = [session_id.decode() for session_id in found]
        later = await self.look(partition, due)
        # Only now: whoever dies in between leaves them to be looked at again.
        await self._redis.run([("ZREM", retries, s) for s in due if s not in later])

    def forget_partition(self, partition: int) -> None:
        """Drop what is known of a partition that is taken over, or replayed."""
        self._asked.forget(partition)

    def _decide(
        self, view: SessionView, now: int, *, is_over: bool = False
    ) -> Asked | Later | Pending | None:
        try:
            return self._trigger.decide(
                view.pressure, view.load(), view.asked, now, is_over=is_over
            )
        except PolicyError as error:
            _log.warning("pressure not decided", session=view.session_id, error=error.message)
            return None

    async def _over(self, partition: int, pending: Mapping[str, Pending]) -> set[str]:
        """Return the sessions whose request has an outcome, or had one that is lost."""
        keys = self._store.keys
        found = await self._redis.run(
            [("EXISTS", keys.outcome(session, one.request_id)) for session, one in pending.items()]
        )
        over = {session for session, there in zip(pending, found, strict=True) if there}
        overdue = {(s, p.request_id) for s, p in pending.items() if p.overdue and s not in over}
        if not overdue:
            return over
        try:
            return over | {session for session, _ in await self._asked.over(partition, overdue)}
        except ServiceError as error:
            _log.warning("compactors' progress not known", reason=error.message)
            return over

    async def _ask(self, partition: int, due: list[tuple[SessionView, Asked]]) -> None:
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(ServiceError),
            wait=wait_random_exponential(multiplier=0.1, max=2.0),
            before_sleep=_report,
        )
        await retrying(self._send_new, partition, due)
        await self._redis.run([self._store.asked(v.session_id, asked) for v, asked in due])
        for view, asked in due:
            view.asked = asked

    async def _send_new(self, partition: int, due: list[tuple[SessionView, Asked]]) -> None:
        known = await self._asked.of(partition)
        new = [
            _request(view.session_id, asked.attempt)
            for view, asked in due
            if (view.session_id, asked.attempt.request_id) not in known
        ]
        offsets = await self._client.send(*new)
        known |= {(r.session_id, r.request_id): at for r, at in zip(new, offsets, strict=True)}
        metrics.COMPACTIONS_ASKED.inc(len(new))
        for request in new:
            _log.info("compaction asked", session=request.session_id, request=request.request_id)


def _request(session_id: str, attempt: Attempt) -> CompactionRequest:
    return CompactionRequest(
        attempt.request_id, session_id, "pressure", attempt.generation, REQUESTED_BY
    )


def _report(attempt: RetryCallState) -> None:
    error = attempt.outcome.exception() if attempt.outcome else None
    _log.warning("compaction not asked yet", attempt=attempt.attempt_number, error=str(error))
