"""Stands where the projector does otherwise: between the sequencer's receipts and the writer."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from redis.asyncio import Redis

from surfacelog.projections.keys import Keys
from surfacelog.schemas.json_text import dumps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from surfacelog.schemas.records import Receipt
    from tests.sequencing import Bus


class Postman:
    """Passes receipts on to the writer, or not."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._keys = Keys(bus.settings.namespace)
        self._redis: Redis = Redis.from_url(bus.settings.redis)
        self._seen = 0

    async def collect(self, count: int) -> list[Receipt]:
        """Return the next `count` receipts without passing them on."""
        async with asyncio.timeout(30):
            while len(found := await asyncio.to_thread(self._bus.receipts)) < self._seen + count:
                pass  # a look takes some milliseconds
        self._seen += count
        return found[self._seen - count : self._seen]

    async def deliver(self, *receipts: Receipt) -> None:
        for receipt in receipts:
            text = dumps(asdict(receipt))
            await self._redis.xadd(self._keys.receipts(receipt.writer_id), {"receipt": text})

    async def pass_on(self, count: int) -> None:
        await self.deliver(*await self.collect(count))

    @asynccontextmanager
    async def passing_everything_on(self) -> AsyncIterator[None]:
        async def forever() -> None:
            while True:
                await self.pass_on(1)

        task = asyncio.create_task(forever())
        yield
        task.cancel()

    async def close(self) -> None:
        await self._redis.aclose()
