"""Outcomes of requests in Redis, where those who asked follow them (DESIGN 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.schemas.compaction_outcome import outcome_from_text, outcome_to_text

if TYPE_CHECKING:
    from surfacelog.projections.keys import Keys
    from surfacelog.projections.redis_calls import RedisCalls
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.records import CompactionRequest

KEPT_SECONDS: Final = 24 * 60 * 60


class Outcomes:
    """Records each request's outcome once, and announces it on the channel of the same name."""

    def __init__(self, calls: RedisCalls, keys: Keys) -> None:
        self._calls = calls
        self._keys = keys

    async def find(self, request: CompactionRequest) -> CompactionOutcome | None:
        """Return what became of a request, None while nothing did."""
        found = await self._calls.one(("GET", self._key(request)))
        return None if found is None else outcome_from_text(found.decode())

    async def record(self, request: CompactionRequest, outcome: CompactionOutcome) -> None:
        """Keep the outcome for a day, unless there is one, and wake the waiters."""
        key, text = self._key(request), outcome_to_text(outcome)
        await self._calls.run(
            [("SET", key, text, "NX", "EX", KEPT_SECONDS), ("PUBLISH", key, "done")]
        )

    def _key(self, request: CompactionRequest) -> str:
        return self._keys.outcome(request.session_id, request.request_id)
