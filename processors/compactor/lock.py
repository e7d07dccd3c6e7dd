"""The lock of one session in Redis: it saves duplicate summaries, it is not what makes a
compaction safe (DESIGN 7).

A worker that was stopped for longer than the lock lives wakes up without knowing it, so the
holder asks the clock, not only the renewal: the lock is held while less than its time to live
has passed since Redis last confirmed it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from surfacelog.processors.compactor.interruption import end_tasks, unless
from surfacelog.projections.announced import wait_announced
from surfacelog.projections.redis_calls import RedisUnavailableError
from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from surfacelog.projections.redis_calls import RedisCalls

_log = structlog.get_logger()

_RENEW: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
"""
_RELEASE: Final = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    redis.call('DEL', KEYS[1])
    redis.call('PUBLISH', KEYS[1], 'released')
end
return 0
"""


class LockLostError(SurfacelogError):
    """The lock is gone, or its holder can no longer know that it has it."""

    code: ClassVar[str] = "lock_lost"


class SessionLock:
    """A lock with a token. `lost` is set as soon as a renewal finds it gone."""

    def __init__(self, calls: RedisCalls, key: str, ttl: float) -> None:
        self.lost = asyncio.Event()
        self._calls = calls
        self._key = key
        self._ttl = ttl
        self._token = uuid.uuid4().hex
        self._confirmed = 0.0

    def check(self) -> None:
        """Raise LockLostError unless the lock is certainly held now."""
        if self.lost.is_set() or self._expired():
            self.lost.set()
            raise LockLostError("the lock of the session was lost", key=self._key)

    async def acquire(self) -> None:
        """Wait until the lock is free and take it; its release is announced on its own key."""
        await wait_announced(self._calls.client, self._key, self._try)

    async def keep(self) -> None:
        """Renew at a third of the time to live, until the lock is lost."""
        while not self.lost.is_set():
            await asyncio.sleep(self._ttl / 3)
            before = time.monotonic()
            try:
                renewed = await self._run(_RENEW)
            except RedisUnavailableError as error:
                _log.warning("lock not renewed", key=self._key, error=str(error))
                renewed = None
            if renewed == 1:
                self._confirmed = before
            elif renewed == 0 or self._expired():
                self.lost.set()

    async def release(self) -> None:
        """Give the lock up if it is still ours; without Redis it ends by itself."""
        try:
            await self._run(_RELEASE)
        except RedisUnavailableError as error:
            _log.warning("lock not released", key=self._key, error=str(error))

    def _expired(self) -> bool:
        return time.monotonic() >= self._confirmed + self._ttl

    async def _try(self) -> bool | None:
        before = time.monotonic()
        taken = await self._calls.one(("SET", self._key, self._token, "NX", "PX", self._ttl_ms))
        if taken is None:
            return None
        self._confirmed = before
        return True

    async def _run(self, script: str) -> object:
        return await self._calls.one(("EVAL", script, 1, self._key, self._token, self._ttl_ms))

    @property
    def _ttl_ms(self) -> int:
        return int(self._ttl * 1000)


@asynccontextmanager
async def session_lock(
    calls: RedisCalls, key: str, ttl: float, stopping: asyncio.Event
) -> AsyncIterator[SessionLock]:
    """Take a session's lock, keep it renewed inside the block, release it afterwards.

    `ttl` is in seconds. The block asks `check()` before everything that must not happen twice.
    Raises InterruptedCallError when `stopping` is set before the lock was free.
    """
    lock = SessionLock(calls, key, ttl)
    await unless(lock.acquire(), stopping.wait())
    keeper = asyncio.create_task(lock.keep(), name=f"keep {key}")
    try:
        yield lock
    finally:
        await end_tasks(keeper)
        await lock.release()
