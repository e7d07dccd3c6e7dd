"""Brings parked sessions up to date from the log, beside the live stream (DESIGN 6)."""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Final

from surfacelog.processors.projector.applier import Failure, LogEntry
from surfacelog.processors.projector.parked import REBUILD_CODES
from surfacelog.projections.pressure import settles
from surfacelog.projections.visibility import wait_at_most
from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfacelog.processors.projector.applier import Applied, Applier
    from surfacelog.processors.projector.parked import ParkedSessions
    from surfacelog.processors.projector.partitions import Partitions
    from surfacelog.processors.projector.patience import PatientRedis
    from surfacelog.processors.projector.pressure_watch import PressureWatch
    from surfacelog.projections.log_reader import LogReader
    from surfacelog.projections.store import SurfaceStore
    from surfacelog.schemas.records import EventBatch

SLICE: Final = 200
"""Appends applied at once, so that the live stream gets its turn in between."""

IDLE_SECONDS: Final = 0.5


class Repair:
    """Re-reads what a parked session lacks with a consumer of its own, and releases it."""

    def __init__(
        self,
        partitions: Partitions,
        parked: ParkedSessions,
        applier: Applier,
        store: SurfaceStore,
        redis: PatientRedis,
        reader: LogReader,
        pressure: PressureWatch,
    ) -> None:
        self._partitions = partitions
        self._parked = parked
        self._applier = applier
        self._store = store
        self._redis = redis
        self._reader = reader
        self._pressure = pressure

    async def run(self) -> None:
        """Try parked sessions as they become due, until cancelled."""
        while True:
            self._parked.changed.clear()
            if not await self.run_due():
                await wait_at_most(self._parked.changed, IDLE_SECONDS)

    async def run_due(self) -> bool:
        """Try one session that is due; return whether there was one."""
        due = self._parked.due()
        if due is None:
            return False
        partition, session_id, parked = due
        try:
            if parked.code in REBUILD_CODES:
                await self._remove(session_id)
            failure = await self._catch_up(partition, session_id)
        except SurfacelogError as error:
            # The log does not answer, or a record of it cannot be read: the session stays.
            failure = Failure(error.code, str(error), parked.seq, parked.offset)
        if failure is not None and self._parked.holds(partition, session_id):
            await self._parked.park(partition, {session_id: failure})
        return True

    async def _remove(self, session_id: str) -> None:
        async with self._partitions.turn:
            self._applier.forget(session_id)
            await self._redis.run([self._store.remove(session_id)])

    async def _catch_up(self, partition: int, session_id: str) -> Failure | None:
        """Apply everything that passed the session by; return why it cannot go on, if so."""
        settled = False
        while self._parked.holds(partition, session_id):
            first, before = await self._stored(session_id)
            reached = before
            batches = self._reader.batches(session_id, first)
            while entries := await asyncio.to_thread(_slice, batches, partition):
                result = await self._apply(entries)
                if session_id in result.failures:
                    return result.failures[session_id]
                reached = entries[-1].offset
                settled = settled or any(settles(entry.batch) for entry in entries)
            async with self._partitions.turn:
                passed = self._parked.last_passed(session_id)
                if reached >= passed:
                    if settled:
                        await self._pressure.look(partition, [session_id])
                    await self._parked.release(partition, session_id)
                elif reached == before:
                    return Failure("gap", "the log does not give what passed by", first, passed)
        return None

    async def _apply(self, entries: list[LogEntry]) -> Applied:
        async with self._partitions.turn:
            return await self._applier.apply(entries)

    async def _stored(self, session_id: str) -> tuple[int, int]:
        """Return the session's next seq and the offset of its last append, as Redis has them."""
        (answer,) = await self._redis.run([self._store.load(session_id, surface=False)])
        fields = self._store.loaded(answer).fields
        return int(fields.get("watermark", -1)) + 1, int(fields.get("offset", -1))


def _slice(batches: Iterator[tuple[int, EventBatch]], partition: int) -> list[LogEntry]:
    return [LogEntry(partition, offset, batch) for offset, batch in islice(batches, SLICE)]
