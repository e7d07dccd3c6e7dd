"""The session's lock on a real Redis that a test may stop, empty and restart."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from surfacelog.processors.compactor.interruption import InterruptedCallError
from surfacelog.processors.compactor.lock import LockLostError, session_lock
from surfacelog.projections.redis_calls import RedisCalls, connect_redis

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.private_redis import PrivateRedis

KEY = "n:{s}:lock"
TTL = 0.6


@pytest.fixture
async def calls(own_redis: PrivateRedis) -> AsyncIterator[RedisCalls]:
    calls = RedisCalls(await connect_redis(own_redis.url))
    yield calls
    await calls.client.aclose()


async def test_a_held_lock_is_renewed_and_its_release_wakes_the_next(calls: RedisCalls) -> None:
    order: list[str] = []
    held = asyncio.Event()

    async def holder() -> None:
        async with session_lock(calls, KEY, TTL, asyncio.Event()) as lock:
            held.set()
            await asyncio.sleep(2 * TTL)  # outlives its time to live only if it is renewed
            lock.check()
            order.append("first")

    async def waiter() -> float:
        await held.wait()
        async with session_lock(calls, KEY, TTL, asyncio.Event()):
            order.append("second")
            return time.monotonic()

    first = asyncio.create_task(holder())
    second = asyncio.create_task(waiter())
    await first
    released = time.monotonic()
    assert await second - released < TTL / 2
    assert order == ["first", "second"]


async def test_a_lock_that_someone_else_has_is_lost_and_never_released_by_us(
    calls: RedisCalls,
) -> None:
    async with session_lock(calls, KEY, TTL, asyncio.Event()) as lock:
        await calls.one(("SET", KEY, "theirs"))
        async with asyncio.timeout(2 * TTL):
            await lock.lost.wait()
        with pytest.raises(LockLostError):
            lock.check()

    assert await calls.one(("GET", KEY)) == b"theirs"


async def test_a_lock_of_an_emptied_redis_is_lost(
    calls: RedisCalls, own_redis: PrivateRedis
) -> None:
    async with session_lock(calls, KEY, TTL, asyncio.Event()) as lock:
        own_redis.flushall()
        async with asyncio.timeout(2 * TTL):
            await lock.lost.wait()


async def test_a_holder_that_slept_through_its_time_knows_it_at_once(calls: RedisCalls) -> None:
    async with session_lock(calls, KEY, TTL, asyncio.Event()) as lock:
        time.sleep(1.5 * TTL)  # noqa: ASYNC251  # as a SIGSTOP: nothing of this process runs
        with pytest.raises(LockLostError):
            lock.check()


async def test_a_redis_that_is_away_takes_the_lock_with_it_in_time(
    calls: RedisCalls, own_redis: PrivateRedis
) -> None:
    async with session_lock(calls, KEY, TTL, asyncio.Event()) as lock:
        own_redis.stop()
        async with asyncio.timeout(10):
            await lock.lost.wait()
        own_redis.start()


async def test_who_waits_for_a_lock_stops_when_the_worker_does(calls: RedisCalls) -> None:
    stopping = asyncio.Event()
    await calls.one(("SET", KEY, "theirs"))
    asyncio.get_running_loop().call_later(0.1, stopping.set)

    async with asyncio.timeout(2):
        with pytest.raises(InterruptedCallError):
            async with session_lock(calls, KEY, TTL, stopping):
                raise AssertionError("the lock was not free")
    assert await calls.one(("GET", KEY)) == b"theirs"
