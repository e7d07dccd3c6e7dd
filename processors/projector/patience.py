"""Redis calls that wait: while Redis is away the projector stands still and skips nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from surfacelog.projections.redis_calls import RedisUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tenacity import RetryCallState

    from surfacelog.projections.redis_calls import Command, RedisCalls

_log = structlog.get_logger()


class PatientRedis:
    """Repeats pipelines until Redis answers. Every command it is given may be repeated."""

    def __init__(self, calls: RedisCalls) -> None:
        self.calls = calls

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands as `RedisCalls.run` does, for as long as it takes."""
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(RedisUnavailableError),
            wait=wait_random_exponential(multiplier=0.05, max=1.0),
            before_sleep=_report,
        )
        answers: list[Any] = await retrying(self.calls.run, commands)
        return answers


def _report(attempt: RetryCallState) -> None:
    if attempt.attempt_number in (1, 5) or attempt.attempt_number % 30 == 0:
        error = attempt.outcome.exception() if attempt.outcome else None
        _log.warning("redis unavailable", attempt=attempt.attempt_number, error=str(error))
