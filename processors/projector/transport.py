"""Faust's Kafka transport, made right for a transactional log.

Stock Faust 0.15 reads aborted records, counts the offsets around transaction markers as
acknowledged, and chooses itself where to start (DESIGN 6). Here the consumer reads committed
records only; where it starts and what it commits is what the projector has applied, nothing
else; and every record says which record it follows, so that a stale prefetched one, or a hole,
is noticed whatever Faust did with the records in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from aiokafka.errors import IllegalStateError
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer
from faust.transport.drivers.aiokafka import Transport as FaustTransport
from faust.types import TP
from faust.types.tuples import ConsumerMessage
from mode.threads import WorkerThread

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import aiokafka
    import faust
    from aiokafka import ConsumerRecord


class Applied(Protocol):
    """Who knows how far each partition was applied."""

    async def assign(self, committed: Mapping[TP, int | None]) -> dict[TP, int]:
        """Take over these partitions, given with the offsets committed in Kafka.

        Returns the offset at which each must be read on.
        """

    def applied(self, tp: TP) -> int | None:
        """Return the offset before which everything of a partition is applied, if known."""


class LinkedRecord(NamedTuple):
    """A record and the offset that directly follows the record before it (or a seek)."""

    record: ConsumerRecord[bytes | None, bytes | None]
    follows: int


class LinkedMessage(ConsumerMessage):
    """A Faust message that remembers which record it follows (see LinkedRecord)."""

    follows: int


class ReadPoint(NamedTuple):
    """How far a partition was fetched: after its last record, and after its last marker."""

    after_record: int
    after_marker: int


class DaemonThread(WorkerThread):
    """A thread that ends with the process, also when a broker that is away holds it up."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.daemon = True


class LogConsumerThread(AIOKafkaConsumerThread):
    """The thread that owns the aiokafka consumer. Links and seeks change on its loop only."""

    Worker = DaemonThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._after_record: dict[TP, int] = {}

    def _create_worker_consumer(self, transport: FaustTransport) -> aiokafka.AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        return consumer

    async def committed(self, tps: frozenset[TP]) -> dict[TP, int | None]:
        """Return the offsets that Kafka keeps for the group; None where it keeps none."""
        offsets: dict[TP, int | None] = await self.call_thread(self._committed, tps)
        return offsets

    async def _committed(self, tps: frozenset[TP]) -> dict[TP, int | None]:
        consumer = self._ensure_consumer()
        return {tp: await consumer.committed(tp) for tp in tps}

    async def seek_all(self, offsets: Mapping[TP, int]) -> None:
        """Read on at these offsets; what was fetched before and not handed over is discarded."""
        await self.call_thread(self._seek_all, offsets)

    async def _seek_all(self, offsets: Mapping[TP, int]) -> None:
        consumer = self._ensure_consumer()
        for tp, offset in offsets.items():
            try:
                consumer.seek(tp, offset)
            except IllegalStateError:
                continue  # revoked meanwhile: its next owner decides
            self._after_record[tp] = offset

    async def read_point(self, tp: TP) -> ReadPoint | None:
        """Return how far a partition was fetched, or None while that is unknown."""
        point: ReadPoint | None = await self.call_thread(self._read_point, tp)
        return point

    async def _read_point(self, tp: TP) -> ReadPoint | None:
        consumer = self._ensure_consumer()
        if tp not in consumer.assignment():
            return None
        # The position first: a record fetched meanwhile then shows in the link, never the reverse.
        position = await consumer.position(tp)
        after_record = self._after_record.get(tp)
        if after_record is None:
            return None
        return ReadPoint(after_record, max(after_record, position))

    async def _fetch_records(self, *args: Any, **kwargs: Any) -> dict[TP, list[LinkedRecord]]:
        fetched = await super()._fetch_records(*args, **kwargs)
        # No await between the fetch and the links: a seek cannot come between.
        return {TP(*tp): list(self._link(TP(*tp), records)) for tp, records in fetched.items()}

    def _link(
        self, tp: TP, records: list[ConsumerRecord[bytes | None, bytes | None]]
    ) -> Iterator[LinkedRecord]:
        for record in records:
            yield LinkedRecord(record, self._after_record.get(tp, record.offset))
            self._after_record[tp] = record.offset + 1


class _ReadOffsets(dict[TP, "int | None"]):
    """Faust's read offsets, always unknown.

    Faust drops messages below them and counts gaps with them. After a rewind a stale message may
    set one above the target, and the target would be dropped: the links decide instead.
    """

    def __getitem__(self, tp: TP) -> None:
        return None

    def __setitem__(self, tp: TP, offset: int | None) -> None:
        pass


class LogConsumer(Consumer):
    """Faust's consumer with offsets of our own."""

    transport: Transport
    _thread: LogConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_offset = _ReadOffsets()

    def _new_consumer_thread(self) -> LogConsumerThread:
        return LogConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def perform_seek(self) -> None:
        """Seek every assigned partition to where the projector says it must be read on."""
        committed = await self._thread.committed(frozenset(self.assignment()))
        offsets = await self.transport.applied.assign(committed)
        self._committed_offset.update(committed)
        await self._thread.seek_all(offsets)

    async def rewind(self, offsets: Mapping[TP, int]) -> None:
        """Read on at these offsets while running."""
        await self._thread.seek_all(offsets)

    async def read_point(self, tp: TP) -> ReadPoint | None:
        """Return how far a partition was fetched, or None while that is unknown."""
        return await self._thread.read_point(tp)

    def _to_message(self, tp: TP, record: LinkedRecord) -> LinkedMessage:
        source = record.record
        message = LinkedMessage(
            source.topic,
            source.partition,
            source.offset,
            source.timestamp / 1000.0,
            source.timestamp_type,
            source.headers,
            source.key,
            source.value,
            source.checksum,
            source.serialized_key_size,
            source.serialized_value_size,
            tp,
            generation_id=self.app.consumer_generation_id,
        )
        message.follows = record.follows
        return message

    def _filter_tps_with_pending_acks(self, topics: object = None) -> Iterator[TP]:
        return (tp for tp in self.assignment() if topics is None or tp in topics)  # type: ignore[operator]  # a set of TP

    def _new_offset(self, tp: TP) -> int | None:
        self._acked[tp].clear()
        self._acked_index[tp].clear()
        return self.transport.applied.applied(tp)

    def _should_commit(self, tp: TP, offset: int) -> bool:
        # Not only when greater: during a replay lag tools should see the lag.
        return bool(self._committed_offset[tp] != offset)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        pass


class Transport(FaustTransport):
    """The transport of the projector's Faust app."""

    Consumer = LogConsumer

    def __init__(self, app: faust.App, applied: Applied) -> None:
        super().__init__(app.conf.broker, app, loop=app.loop)
        self.applied = applied
