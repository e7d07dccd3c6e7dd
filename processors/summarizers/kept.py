"""Summaries are paid for once: what came back is kept in Redis until it is published (DESIGN 7)."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from surfacelog.processors.summarizers.protocol import Summary
from surfacelog.projections.redis_calls import RedisUnavailableError
from surfacelog.schemas.failpoints import failpoint
from surfacelog.schemas.json_text import dumps, loads

if TYPE_CHECKING:
    from surfacelog.processors.summarizers.protocol import Summarizer, SummaryRequest
    from surfacelog.projections.keys import Keys
    from surfacelog.projections.redis_calls import RedisCalls
    from surfacelog.schemas.json_value import JsonValue

KEPT_SECONDS: Final = 60 * 60
KEEP_AGAIN_SECONDS: Final = 0.2

_log = structlog.get_logger()


class KeptSummarizer:
    """A summarizer that answers from Redis what it has answered before, in any worker.

    A result is found under the digest of the span and of all that can change the summary. The
    calls are counted before they are made, so `attempts` also tells of those whose worker died.
    A result that Redis could not take yet is held back in memory: it is paid for as well.
    """

    def __init__(self, summarizer: Summarizer, calls: RedisCalls, keys: Keys) -> None:
        self._summarizer = summarizer
        self._calls = calls
        self._keys = keys
        self._held: dict[str, Summary] = {}

    @property
    def identity(self) -> str:
        """That of the summarizer behind it."""
        return self._summarizer.identity

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Return the kept summary, or have it made and keep it."""
        key = self._keys.kept_summary(request.session_id, self._digest(request))
        kept = await self._calls.one(("HGET", key, "summary"))
        if kept is not None:
            return _from_text(kept.decode())
        if key not in self._held:
            self._held[key] = await self._made(key, request)
        await self._keep(key, self._held[key])
        failpoint("compactor-kept")
        return self._held.pop(key)

    async def _made(self, key: str, request: SummaryRequest) -> Summary:
        called, _ = await self._calls.run(
            [("HINCRBY", key, "calls", 1), ("EXPIRE", key, KEPT_SECONDS)]
        )
        failpoint("compactor-calling")
        made = await self._summarizer.summarize(request)
        return replace(made, attempts=made.attempts + int(called) - 1)

    async def _keep(self, key: str, summary: Summary) -> None:
        """Keep it as soon as Redis answers; who waits holds a lock there, and ends with it."""
        while True:
            try:
                await self._calls.run(
                    [
                        ("HSET", key, "summary", _to_text(summary)),
                        ("EXPIRE", key, KEPT_SECONDS),
                    ]
                )
            except RedisUnavailableError as error:
                _log.warning("summary not kept yet", reason=error.message)
                await asyncio.sleep(KEEP_AGAIN_SECONDS)
            else:
                return

    def _digest(self, request: SummaryRequest) -> str:
        parts: list[JsonValue] = [
            self.identity,
            request.max_tokens,
            request.model,
            request.header,
            list(request.messages),
        ]
        return hashlib.sha256(dumps(parts).encode()).hexdigest()[:32]


def _to_text(summary: Summary) -> str:
    fields: dict[str, Any] = asdict(summary)
    return dumps({name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()})


def _from_text(text: str) -> Summary:
    read: Any = loads(text)
    fields: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in read.items()}
    return Summary(**fields)
