"""Backpressure: a writer waits for room, nothing is dropped."""

from __future__ import annotations

import asyncio


class Room:
    """A bounded amount of something that is under way: appends or bytes.

    Whoever takes after `wait` without another await in between may overshoot the limit by what
    it takes itself, so that an append larger than the limit is not stuck for ever.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken = 0
        self._freed = asyncio.Event()

    async def wait(self) -> None:
        """Return as soon as less than the limit is taken."""
        while self._taken >= self._limit:
            self._freed.clear()
            await self._freed.wait()

    def take(self, amount: int) -> None:
        """Count something as under way."""
        self._taken += amount

    def give(self, amount: int) -> None:
        """Count something as done with, and wake who waits."""
        self._taken -= amount
        self._freed.set()
