"""Waiting for something in Redis that its writer also announces on a channel."""

from __future__ import annotations

import time
from math import inf
from typing import TYPE_CHECKING, TypeVar

from redis.exceptions import RedisError

from surfacelog.projections.redis_calls import RedisUnavailableError
from surfacelog.projections.visibility import RECHECK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from surfacelog.projections.redis_calls import RedisClient

T = TypeVar("T")


async def wait_announced(
    client: RedisClient,
    channel: str,
    look: Callable[[], Awaitable[T | None]],
    seconds: float = inf,
) -> T | None:
    """Return what `look` finds, woken by messages on `channel`; None after `seconds`.

    Announcements may be lost, so it also looks again every RECHECK_SECONDS. Raises
    RedisUnavailableError.
    """
    try:
        return await _wait(client, channel, look, time.monotonic() + seconds)
    except (RedisError, OSError) as error:
        raise RedisUnavailableError(f"Redis does not answer: {error}") from error


async def _wait(
    client: RedisClient, channel: str, look: Callable[[], Awaitable[T | None]], deadline: float
) -> T | None:
    async with client.pubsub(ignore_subscribe_messages=True) as announced:
        await announced.subscribe(channel)
        while (found := await look()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            await announced.get_message(timeout=min(left, RECHECK_SECONDS))
    return found
