"""Takes batches of the log from Faust and applies them (DESIGN 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from surfacelog.processors.projector import metrics
from surfacelog.processors.projector.applier import Failure, LogEntry
from surfacelog.projections.pressure import settles
from surfacelog.schemas.codec import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from surfacelog.processors.projector.applier import Applied, Applier
    from surfacelog.processors.projector.parked import ParkedSessions
    from surfacelog.processors.projector.partitions import Partitions
    from surfacelog.processors.projector.positions import PositionStore
    from surfacelog.processors.projector.pressure_watch import PressureWatch
    from surfacelog.processors.projector.transport import LinkedMessage, LogConsumer
    from surfacelog.schemas.codec import Codec

_log = structlog.get_logger()


class EventsAgent:
    """Applies the log to Redis; the position follows with the next batch, or the ticker."""

    def __init__(
        self,
        codec: Codec,
        partitions: Partitions,
        positions: PositionStore,
        parked: ParkedSessions,
        applier: Applier,
        pressure: PressureWatch,
    ) -> None:
        self._codec = codec
        self._partitions = partitions
        self._positions = positions
        self._parked = parked
        self._applier = applier
        self._pressure = pressure

    async def take(self, consumer: LogConsumer, messages: Sequence[LinkedMessage]) -> None:
        """Apply messages in one round trip, and note what they leave behind."""
        async with self._partitions.turn:
            selected, holes = self._partitions.select(messages)
            if selected:
                with metrics.APPLY_SECONDS.time():
                    await self._apply(consumer, selected)
            await self._partitions.fill_holes(consumer, holes)

    async def _apply(self, consumer: LogConsumer, messages: Sequence[LinkedMessage]) -> None:
        entries, unreadable = self._decode(messages)
        held = self._partitions.events
        touched = sorted({message.partition for message in messages})
        # The position of the batch before: its data is known to be there.
        moves = [self._positions.move(partition, held[partition]) for partition in touched]
        live = self._live(entries)
        result = await self._applier.apply(live, moves)
        result.failures |= unreadable
        lost: set[int] = set()
        for partition, answer in zip(touched, result.extra, strict=True):
            offset = self._positions.moved(held[partition], answer)
            if offset is not None:
                lost.add(partition)
                await self._partitions.rewind(consumer, partition, offset)
        kept = [message for message in messages if message.partition not in lost]
        await self._park(kept, result)
        await self._look_for_pressure(live, result, lost)
        self._partitions.done(kept)
        metrics.APPENDS.inc(len(kept))
        metrics.EVENTS.inc(result.events)

    def _decode(
        self, messages: Iterable[LinkedMessage]
    ) -> tuple[list[LogEntry], dict[str, Failure]]:
        entries: list[LogEntry] = []
        unreadable: dict[str, Failure] = {}
        for message in messages:
            session_id = (message.key or b"").decode(errors="replace")
            try:
                batch = self._codec.decode_batch(message.value or b"")
            except DecodeError as error:
                metrics.UNREADABLE.labels("events").inc()
                unreadable.setdefault(
                    session_id, Failure(error.code, error.message, -1, message.offset)
                )
            else:
                entries.append(LogEntry(message.partition, message.offset, batch))
        return entries, unreadable

    def _live(self, entries: Iterable[LogEntry]) -> list[LogEntry]:
        """Leave the appends of parked sessions to the repair."""
        live = []
        for entry in entries:
            session_id = entry.batch.session_id
            if self._parked.holds(entry.partition, session_id):
                self._parked.passed(session_id, entry.offset)
            else:
                live.append(entry)
        return live

    async def _look_for_pressure(
        self, entries: Iterable[LogEntry], result: Applied, lost: set[int]
    ) -> None:
        """Look at the sessions in which something settled just now, and not in a replay."""
        held = self._partitions.events
        settled: dict[int, set[str]] = {}
        for entry in entries:
            if entry.partition in lost or entry.batch.session_id in result.failures:
                continue
            if entry.offset >= held[entry.partition].replay_until and settles(entry.batch):
                settled.setdefault(entry.partition, set()).add(entry.batch.session_id)
        for partition, session_ids in settled.items():
            await self._pressure.look(partition, session_ids)

    async def _park(self, messages: Iterable[LinkedMessage], result: Applied) -> None:
        if not result.failures:
            return
        last: dict[str, LinkedMessage] = {
            (message.key or b"").decode(errors="replace"): message for message in messages
        }
        for session_id, failure in result.failures.items():
            if session_id in last:
                await self._parked.park(last[session_id].partition, {session_id: failure})
                self._parked.passed(session_id, last[session_id].offset)
