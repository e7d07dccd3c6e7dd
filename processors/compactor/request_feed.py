"""The topic `compactions` as a feed of requests for one member of the compactors' group."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from surfacelog.processors.compactor.offsets import OffsetTracker
from surfacelog.schemas.bounded_call import close_in_time
from surfacelog.schemas.codec import DecodeError
from surfacelog.schemas.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.records import CompactionRequest
    from surfacelog.schemas.settings import Settings

T = TypeVar("T")

POLL_SECONDS: Final = 0.2
SESSION_MS: Final = 6000

_log = structlog.get_logger()


class Delivered(NamedTuple):
    """A request and its place on the topic."""

    request: CompactionRequest
    partition: int
    offset: int


class RequestFeed:
    """Delivers requests and commits, in order, the offsets of those that are done."""

    def __init__(self, settings: Settings, codec: Codec) -> None:
        self._topic = settings.topics.compactions
        self._codec = codec
        self._offsets = OffsetTracker()
        self._consumer = Consumer(_config(settings))
        # The client blocks, and calls back in the thread that polls: all its calls share one.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="compactions")
        self._consumer.subscribe(
            [self._topic], on_assign=_assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    async def next(self, *, wanted: bool) -> Delivered | None:
        """Return the next request; None when there is none yet, or none is wanted.

        To be called all the time: it keeps this member in the group, and commits what is done.
        """
        return await self._run(self._poll, wanted)

    def done(self, delivered: Delivered) -> None:
        """Note that a request has its outcome: its offset is committed in its turn."""
        self._offsets.done(delivered.partition, delivered.offset)

    async def close(self) -> None:
        """Commit what is done and leave the group, as far as Kafka lets it in time."""
        await self._run(close_in_time, "the feed of requests", self._leave)
        self._thread.shutdown()

    def _leave(self) -> None:
        self._commit()
        self._consumer.close()

    async def _run(self, call: Callable[..., T], *arguments: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    def _poll(self, wanted: bool) -> Delivered | None:
        self._commit()
        # Every time, because partitions come unpaused when they are assigned.
        assigned = self._consumer.assignment()
        (self._consumer.resume if wanted else self._consumer.pause)(assigned)
        message = self._consumer.poll(POLL_SECONDS)
        return None if message is None else self._delivered(message)

    def _delivered(self, message: Message) -> Delivered | None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            _log.warning("compactions not read", error=str(error))
            return None
        self._offsets.begin(partition, offset)
        try:
            request = self._codec.decode_compaction(message.value() or b"")
        except DecodeError as undecodable:
            _log.warning("request skipped", offset=offset, error=str(undecodable))
            self._offsets.done(partition, offset)
            return None
        return Delivered(request, partition, offset)

    def _commit(self) -> None:
        positions = self._offsets.take_committable()
        if not positions:
            return
        failpoint("compactor-committing")
        try:
            self._consumer.commit(
                offsets=[TopicPartition(self._topic, p, o) for p, o in positions.items()],
                asynchronous=False,
            )
        except KafkaException as error:
            # The requests come again, to this worker or another, and their outcomes are found.
            _log.warning("offsets not committed", error=str(error))

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit()
        self._lost(_consumer, partitions)

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        _log.info("partitions lost", partitions=[place.partition for place in partitions])
        for place in partitions:
            self._offsets.forget(place.partition)


def _assigned(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
    _log.info("partitions assigned", partitions=[place.partition for place in partitions])


def _config(settings: Settings) -> dict[str, str | int | bool]:
    return {
        "bootstrap.servers": settings.kafka,
        "group.id": settings.topics.compactors,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        # A killed worker's requests go to another one after this time.
        "session.timeout.ms": SESSION_MS,
        "max.poll.interval.ms": int(settings.compactor_poll_seconds * 1000),
        "fetch.wait.max.ms": 100,
    }
