"""What the projector does every second, also when nothing is written (DESIGN 6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from surfacelog.processors.projector import metrics

if TYPE_CHECKING:
    from surfacelog.processors.projector.audit import Audit
    from surfacelog.processors.projector.parked import ParkedSessions
    from surfacelog.processors.projector.partitions import Partitions
    from surfacelog.processors.projector.patience import PatientRedis
    from surfacelog.processors.projector.positions import PositionStore
    from surfacelog.processors.projector.pressure_watch import PressureWatch
    from surfacelog.processors.projector.transport import LogConsumer

TICK_SECONDS: Final = 1.0


class Ticker:
    """Stores positions, counts up heartbeats, notices losses, audits sessions, asks again."""

    def __init__(
        self,
        partitions: Partitions,
        positions: PositionStore,
        parked: ParkedSessions,
        audit: Audit,
        redis: PatientRedis,
        pressure: PressureWatch,
    ) -> None:
        self._partitions = partitions
        self._positions = positions
        self._parked = parked
        self._audit = audit
        self._redis = redis
        self._pressure = pressure

    async def run(self, consumer: LogConsumer) -> None:
        """Tick until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            await self.tick(consumer)

    async def tick(self, consumer: LogConsumer) -> None:
        """Do one round. What was lost is noticed first, so that nothing is noted beside a hole."""
        async with self._partitions.turn:
            await self._partitions.skip_markers(consumer)
            await self.store_positions(consumer)
            await self._audit.note()
            await self._audit.check_next()
            await self._look_at_due()
        metrics.PARKED.set(len(self._parked))

    async def _look_at_due(self) -> None:
        for partition, held in self._partitions.events.items():
            if not held.replaying:
                await self._pressure.look_at_due(partition)

    async def store_positions(self, consumer: LogConsumer) -> None:
        """Store every position; replay partitions of which Redis has lost something."""
        held = self._partitions.events
        moves = [self._positions.move(partition, progress) for partition, progress in held.items()]
        answers = await self._redis.run(moves)
        for (partition, progress), answer in zip(held.items(), answers, strict=True):
            back = self._positions.moved(progress, answer)
            if back is None:
                back = await self._positions.beat(partition, progress)
            if back is not None:
                metrics.REPLAYS.inc()
                await self._partitions.rewind(consumer, partition, back)
