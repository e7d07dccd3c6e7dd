"""Noticing that the log has closed a compaction's bracket: what it still works on cannot land."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from surfacelog.projections.announced import wait_announced
from surfacelog.projections.visibility import RECHECK_SECONDS
from surfacelog.schemas.errors import ServiceError

if TYPE_CHECKING:
    from surfacelog.projections.keys import Keys
    from surfacelog.projections.redis_calls import RedisCalls

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class BracketWatch:
    """Watches brackets in the projection, woken by every append of their session."""

    calls: RedisCalls
    keys: Keys

    async def closed(self, session_id: str, compaction_id: str, start_seq: int) -> None:
        """Return when the bracket that opened at `start_seq` is open no more.

        It is closed by an operator, by a worker that took over, and by a session/end-seed of a
        new owner. While Redis is away, emptied or broken nothing is known, and the
        wait goes on.
        """

        async def look() -> bool | None:
            return await self._is_closed(session_id, compaction_id, start_seq) or None

        channel = self.keys.watermark_channel(session_id)
        while True:
            try:
                await wait_announced(self.calls.client, channel, look)
            except ServiceError as error:
                _log.warning("bracket not watched", session=session_id, reason=error.message)
                await asyncio.sleep(RECHECK_SECONDS)
            else:
                return

    async def _is_closed(self, session_id: str, compaction_id: str, start_seq: int) -> bool:
        key = self.keys.session(session_id, "m")
        watermark, shown = await self.calls.one(("HMGET", key, "watermark", "compaction"))
        return (
            watermark is not None
            and int(watermark) >= start_seq
            and (shown or b"").decode() != compaction_id
        )
