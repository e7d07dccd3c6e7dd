"""Waiting until a session's projection reaches a seq, woken by a notification (DESIGN 6)."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import structlog
from redis.exceptions import RedisError

from surfacelog.projections.redis_calls import RedisUnavailableError
from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from redis.asyncio import Redis, RedisCluster

    from surfacelog.projections.keys import Keys

RECHECK_SECONDS: Final = 1.0
"""Notifications may be lost (pub/sub promises nothing), so a waiter looks again this often."""

RETRY_SECONDS: Final = 0.2

T = TypeVar("T")

_log = structlog.get_logger()


class VisibilityTimeout(SurfacelogError):  # noqa: N818  # it is a timeout, and callers say so
    """The projection did not reach a seq in time.

    `watermark` is the last visible seq, -1 when nothing of the session is visible. The append
    may be committed all the same: visibility says nothing about the log.
    """

    code = "not_visible"

    def __init__(self, session_id: str, seq: int, watermark: int, seconds: float) -> None:
        super().__init__(
            f"{session_id}: seq {seq} is not visible after {seconds:.1f} s; "
            f"visible up to {watermark}",
            session=session_id,
            seq=seq,
            watermark=watermark,
        )
        self.session_id = session_id
        self.seq = seq
        self.watermark = watermark


class TimeLimit:
    """A time limit that began now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._deadline = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """The seconds left, negative when over."""
        return self._deadline - time.monotonic()


class Visibility:
    """Watches watermarks over one subscription connection, shared by all waiters of a process."""

    def __init__(self, client: Redis | RedisCluster, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._pubsub: Any = None
        self._listening: asyncio.Task[None] | None = None
        self._woken: defaultdict[str, list[asyncio.Event]] = defaultdict(list)

    async def watermark(self, session_id: str) -> int:
        """Return the last visible seq of a session, -1 when nothing of it is visible."""
        found = await self._client.hget(self._keys.session(session_id, "m"), "watermark")
        return -1 if found is None else int(found)

    async def wait(self, session_id: str, seq: int, seconds: float) -> int:
        """Return the watermark as soon as it is at least `seq`; raises VisibilityTimeout."""
        watermark = await self.watermark(session_id)
        if watermark >= seq:
            return watermark
        limit = TimeLimit(seconds)
        async with self.watching(session_id) as woken:
            while True:
                # Cleared before the look: what is published after it wakes the next wait.
                woken.clear()
                watermark = await self.watermark(session_id)
                if watermark >= seq:
                    return watermark
                if limit.left <= 0:
                    raise VisibilityTimeout(session_id, seq, watermark, seconds)
                await wait_at_most(woken, min(limit.left, RECHECK_SECONDS))

    @asynccontextmanager
    async def watching(self, session_id: str) -> AsyncIterator[asyncio.Event]:
        """Give an event that is set whenever a new watermark of the session is published."""
        channel = self._keys.watermark_channel(session_id)
        woken = asyncio.Event()
        self._woken[channel].append(woken)
        try:
            if len(self._woken[channel]) == 1:
                await self._subscribe(channel)
            yield woken
        finally:
            self._woken[channel].remove(woken)
            if not self._woken[channel]:
                del self._woken[channel]
                await self._pubsub.unsubscribe(channel)

    async def close(self) -> None:
        """End the subscription."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        if self._pubsub is not None:
            await self._pubsub.aclose()

    async def _subscribe(self, channel: str) -> None:
        if self._pubsub is None:
            self._pubsub = self._client.pubsub(ignore_subscribe_messages=True)
        await self._pubsub.subscribe(channel)
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._listen(), name="watermark notifications")

    async def _listen(self) -> None:
        """Wake the waiters until nobody waits; a broken connection costs them a recheck only."""
        while self._woken:
            try:
                message = await self._pubsub.get_message(timeout=RECHECK_SECONDS)
            except (RedisError, OSError) as error:
                _log.warning("notifications interrupted", error=str(error))
                await asyncio.sleep(RECHECK_SECONDS)
                continue
            if message is not None:
                for woken in self._woken.get(message["channel"].decode(), ()):
                    woken.set()


async def wait_at_most(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event; return whether it came within `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def while_redis_is_away(call: Callable[[], Awaitable[T]], limit: TimeLimit) -> T:
    """Return what `call` does, repeated while Redis cannot answer.

    Raises RedisUnavailableError when it still cannot when the time is over.
    """
    while True:
        try:
            return await call()
        except RedisUnavailableError:
            if limit.left <= 0:
                raise
            await asyncio.sleep(RETRY_SECONDS)
