"""The partitions that this projector holds now, and which of their records come next.

Faust may hand over a record again, skip one, or deliver a prefetched one after a rebalance or a
rewind. A record is taken only when it is new and directly follows what was taken before.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from faust.types import TP

from surfacelog.processors.projector.positions import LogEnd, PositionStore, Progress
from surfacelog.schemas.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from surfacelog.processors.projector.transport import LinkedMessage, LogConsumer
    from surfacelog.schemas.settings import Settings

CALL_SECONDS: Final = 15.0
_RESEEK_SECONDS: Final = 1.0
"""After a seek stale records still arrive for a while; they are no reason for another one."""

_log = structlog.get_logger()


class Partitions:
    """What is assigned to this process, and how far it is. Implements transport.Applied.

    `held` has the partitions of `events` and `receipts`. The position of the former is Redis's,
    that of the latter Kafka's committed offset. `turn` is held by whoever changes progress or
    sessions: the agents, the ticker, the repair. `on_taken` is told each partition of `events`
    that is to be read from another position: what is known of its sessions is then forgotten.
    """

    def __init__(self, settings: Settings, positions: PositionStore) -> None:
        self.turn = asyncio.Lock()
        self.held: dict[TP, Progress] = {}
        self.assigned = asyncio.Event()
        self.on_taken: Callable[[int], Awaitable[None]] | None = None
        self._settings = settings
        self._events = settings.topics.events
        self._positions = positions
        self._sought: dict[TP, float] = {}
        self._topic_id = ""

    @property
    def events(self) -> dict[int, Progress]:
        """The held partitions of `events`, by number."""
        return {tp.partition: held for tp, held in self.held.items() if tp.topic == self._events}

    async def assign(self, committed: Mapping[TP, int | None]) -> dict[TP, int]:
        """Take over exactly these partitions; see transport.Applied."""
        async with self.turn:
            wanted = sorted(tp.partition for tp in committed if tp.topic == self._events)
            ends = await asyncio.to_thread(log_ends, self._settings, wanted)
            self.held = {tp: Progress(offset or 0, offset or 0) for tp, offset in committed.items()}
            for partition, end in ends.items():
                self._topic_id = end.topic_id
                offset = await self._positions.take(partition, end)
                # Kafka's offset tells what was applied before Redis lost it: a replay as well.
                known = min(committed.get(TP(self._events, partition)) or 0, end.end)
                self.held[TP(self._events, partition)] = Progress(offset, offset, known)
                await self._tell_taken(partition)
            starts = {tp: held.next for tp, held in self.held.items()}
        _log.info("partitions assigned", events={p: held.next for p, held in self.events.items()})
        self.assigned.set()
        return starts

    def applied(self, tp: TP) -> int | None:
        """Return the offset before which everything is applied; None for what is not ours."""
        held = self.held.get(tp)
        return None if held is None else held.next

    def select(self, messages: Iterable[LinkedMessage]) -> tuple[list[LinkedMessage], set[TP]]:
        """Return the messages to apply, in order, and the partitions that have a hole."""
        expected = {tp: held.next for tp, held in self.held.items()}
        selected: list[LinkedMessage] = []
        holes: set[TP] = set()
        for message in messages:
            following = expected.get(message.tp)
            if following is None or message.offset < following:
                continue
            if message.follows > following:
                holes.add(message.tp)
                continue
            selected.append(message)
            expected[message.tp] = message.offset + 1
        return selected, holes

    def done(self, messages: Iterable[LinkedMessage]) -> None:
        """Note selected messages as applied."""
        for message in messages:
            held = self.held.get(message.tp)
            if held is not None:
                held.next = max(held.next, message.offset + 1)

    async def fill_holes(self, consumer: LogConsumer, holes: Iterable[TP]) -> None:
        """Read the partitions again from what comes next, unless that was asked for just now."""
        now = time.monotonic()
        due = [tp for tp in holes if now - self._sought.get(tp, 0.0) > _RESEEK_SECONDS]
        await self._seek(consumer, {tp: self.held[tp].next for tp in due if tp in self.held})

    async def rewind(self, consumer: LogConsumer, partition: int, offset: int) -> None:
        """Go back, in Redis too, and replay: what Redis had from there on is lost.

        The caller holds `turn`.
        """
        tp = TP(self._events, partition)
        held = self.held.get(tp)
        if held is None:
            return
        _log.warning("replaying", partition=partition, offset=offset, applied=held.next)
        await self._positions.reset(partition, offset, self._topic_id)
        held.replay_until = max(held.replay_until, held.next)
        held.next = held.stored = offset
        await self._tell_taken(partition)
        await self._seek(consumer, {tp: offset})

    async def skip_markers(self, consumer: LogConsumer) -> None:
        """Count trailing transaction markers as applied, so that an idle partition has no lag.

        The caller holds `turn`.
        """
        for tp, held in self.held.items():
            point = await consumer.read_point(tp)
            if point is not None and held.next == point.after_record:
                held.next = point.after_marker

    async def _tell_taken(self, partition: int) -> None:
        if self.on_taken is not None:
            await self.on_taken(partition)

    async def _seek(self, consumer: LogConsumer, offsets: dict[TP, int]) -> None:
        if offsets:
            self._sought.update(dict.fromkeys(offsets, time.monotonic()))
            await consumer.rewind(offsets)


def log_ends(settings: Settings, partitions: list[int]) -> dict[int, LogEnd]:
    """Return topic id and end offset of partitions of `events`; raises ServiceError."""
    admin = AdminClient({"bootstrap.servers": settings.kafka})
    topic = settings.topics.events
    try:
        described = admin.describe_topics(TopicCollection([topic]))[topic].result(CALL_SECONDS)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # untyped in the client
        asked = {TopicPartition(topic, p): latest for p in partitions}
        listed = admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=CALL_SECONDS
        )
        topic_id = str(described.topic_id)
        return {
            tp.partition: LogEnd(topic_id, end.result(CALL_SECONDS).offset)
            for tp, end in listed.items()
        }
    except (KafkaException, TimeoutError) as error:
        raise ServiceError(f"Kafka does not describe {topic}: {error}") from error
