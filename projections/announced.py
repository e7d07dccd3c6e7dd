"""Waiting for something in Redis that its writer also announces on a channel."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from surfacelog.projections.visibility import RECHECK_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from surfacelog.projections.redis_calls import RedisClient

T = TypeVar("T")


async def wait_announced(
    client: RedisClient,
    channel: str,
    look: Callable[[], Awaitable[T | None]],
    timeout: float = float("inf"),
) -> T | None:
    """Return what `look` finds, woken by messages on `channel`; None after `timeout` seconds.

    Announcements may be lost, so it also looks again every RECHECK_SECONDS.
    """
    deadline = time.monotonic() + timeout
    async with client.pubsub(ignore_subscribe_messages=True) as announced:
        await announced.subscribe(channel)
        while (found := await look()) is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            await announced.get_message(timeout=min(left, RECHECK_SECONDS))
    return found
