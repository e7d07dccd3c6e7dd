"""The worker's loop: requests are delivered in one place and carried out beside it (DESIGN 7).

A summary may take ten minutes, a poll loop may not: requests run as tasks, a bounded number at
once, those of one session one after the other. While all places are taken polling goes on
without delivering, so the worker stays a member of its group. Told to stop, a worker ends what it
has begun as cancelled, and what a service that is away keeps from ending it leaves to another one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    wait_exponential_jitter,
)

from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.processors.compactor.interruption import InterruptedCallError, end_tasks
from surfacelog.projections.visibility import wait_at_most
from surfacelog.schemas.errors import ServiceError

if TYPE_CHECKING:
    from surfacelog.processors.compactor.request_feed import Delivered, RequestFeed
    from surfacelog.processors.compactor.requests import Requests
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.records import CompactionRequest

RETRY_SECONDS_MAX: Final = 30.0
STOP_SECONDS: Final = 10.0
"""How long compactions may take to end when the worker stops: a supervisor waits for 20 s."""

_log = structlog.get_logger()


class Worker:
    """Carries requests out until `stopping` is set."""

    def __init__(
        self, feed: RequestFeed, requests: Requests, concurrency: int, stopping: asyncio.Event
    ) -> None:
        self._feed = feed
        self._requests = requests
        self._concurrency = concurrency
        self._stopping = stopping
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_of_session: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Work until told to stop; what is unfinished then is delivered again, elsewhere.

        An error of our own ends the worker, loudly, after what runs beside it.
        """
        try:
            while not self._stopping.is_set():
                wanted = len(self._tasks) < self._concurrency
                delivered = await self._feed.next(wanted=wanted)
                if delivered is not None:
                    self._begin(delivered)
        finally:
            self._stopping.set()
            await self._end_tasks()
            await self._feed.close()

    async def _end_tasks(self) -> None:
        """Wait until all tasks have ended, and cancel those that do not."""
        if not self._tasks:
            return
        _, stuck = await asyncio.wait(self._tasks, timeout=STOP_SECONDS)
        for task in stuck:
            _log.warning("compaction left open", session=task.get_name(), seconds=STOP_SECONDS)
        await end_tasks(*stuck)

    def _begin(self, delivered: Delivered) -> None:
        session_id = delivered.request.session_id
        before = self._last_of_session.get(session_id)
        task = asyncio.create_task(self._carry_out(delivered, before), name=session_id)
        self._tasks.add(task)
        self._last_of_session[session_id] = task
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._last_of_session.get(task.get_name()) is task:
            del self._last_of_session[task.get_name()]

    async def _carry_out(self, delivered: Delivered, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        request = delivered.request
        log = _log.bind(session=request.session_id, request=request.request_id)
        try:
            outcome = await self._outcome(request)
        except (CompactionFailedError, ServiceError, InterruptedCallError) as error:
            log.info("request given back", reason=error.message)
            return
        except Exception:
            # An error of ours that one session meets must not stop the others.
            log.exception("request not understood")
            outcome = await self._requests.give_up(request)
        self._feed.done(delivered)
        log.info("request done", status=outcome.status, reason=outcome.reason)

    async def _outcome(self, request: CompactionRequest) -> CompactionOutcome:
        """Carry a request out, again and again while it has no outcome."""
        async for attempt in self._while_working():
            with attempt:
                return await self._requests.carry_out(request)
        raise AssertionError("tenacity raises what the last attempt raised")

    def _while_working(self) -> AsyncRetrying:
        return AsyncRetrying(
            retry=retry_if_exception_type((ServiceError, CompactionFailedError)),
            wait=wait_exponential_jitter(initial=0.5, max=RETRY_SECONDS_MAX),
            stop=lambda _attempt: self._stopping.is_set(),
            sleep=self._pause,
            before_sleep=_log_retry,
            reraise=True,
        )

    async def _pause(self, seconds: float) -> None:
        await wait_at_most(self._stopping, seconds)


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    _log.warning("request put off", reason=str(error), attempts=state.attempt_number)
