"""What was asked for because a session was full, as the topic of the requests tells (DESIGN 7).

The flag in Redis says it too, but may be lost with Redis, or with a projector that died between
the request and the flag. So before a first request the topic is read, once for each partition.
An outcome may be lost as well: the offsets of the compactors say which requests are over.
"""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from surfacelog.schemas.bounded_call import close_in_time
from surfacelog.schemas.codec import DecodeError
from surfacelog.schemas.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.records import CompactionRequest
    from surfacelog.schemas.settings import Settings

POLL_SECONDS: Final = 1.0
OFFSETS_SECONDS: Final = 5.0
OFFSETS_FRESH_SECONDS: Final = 5.0
SILENT_POLLS: Final = 15


Key: TypeAlias = "tuple[str, str]"
"""Session and request id."""


class AskedRequests:
    """The pressure requests of each partition, and how far the compactors are with them."""

    def __init__(self, settings: Settings, codec: Codec) -> None:
        self._settings = settings
        self._codec = codec
        self._of: dict[int, dict[Key, int]] = {}
        self._next: dict[int, tuple[float, int]] = {}

    def forget(self, partition: int) -> None:
        """Drop what is known of a partition: another projector may have asked meanwhile."""
        self._of.pop(partition, None)
        self._next.pop(partition, None)

    async def of(self, partition: int) -> dict[Key, int]:
        """Return the requests of a partition with their offsets, to be added to by who asks.

        Raises ServiceError when Kafka does not answer.
        """
        if partition not in self._of:
            self._of[partition] = await asyncio.to_thread(self._read, partition)
        return self._of[partition]

    async def over(self, partition: int, keys: Iterable[Key]) -> set[Key]:
        """Return those of the requests that are not on the topic any more or are done there.

        Raises ServiceError when Kafka does not answer.
        """
        asked = await self.of(partition)
        next_offset = await self._next_offset(partition)
        return {key for key in keys if asked.get(key, -1) < next_offset}

    async def _next_offset(self, partition: int) -> int:
        """Return the offset of the first request that the compactors are not done with.

        It may be OFFSETS_FRESH_SECONDS old: it only grows, and a projector that looks at a long
        queue must not ask for it again and again.
        """
        read_at, offset = self._next.get(partition, (-inf, 0))
        if time.monotonic() - read_at > OFFSETS_FRESH_SECONDS:
            offset = await asyncio.to_thread(self._committed, partition)
            self._next[partition] = (time.monotonic(), offset)
        return offset

    def _committed(self, partition: int) -> int:
        topics = self._settings.topics
        consumer = _consumer(self._settings, topics.compactors)
        try:
            wanted = [TopicPartition(topics.compactions, partition)]
            (place,) = consumer.committed(wanted, OFFSETS_SECONDS)
        except KafkaException as error:
            raise ServiceError(f"no offsets of the compactors: {error}") from error
        finally:
            close_in_time("a reader of offsets", consumer.close)
        return max(place.offset, 0)  # negative: nothing was committed yet

    def _read(self, partition: int) -> dict[Key, int]:
        found = ((offset, self._decoded(value)) for offset, value in self._payloads(partition))
        return {
            (request.session_id, request.request_id): offset
            for offset, request in found
            if request is not None and request.trigger == "pressure"
        }

    def _decoded(self, payload: bytes) -> CompactionRequest | None:
        try:
            return self._codec.decode_compaction(payload)
        except DecodeError:
            return None  # the compactors report it

    def _payloads(self, partition: int) -> Iterator[tuple[int, bytes]]:
        place = TopicPartition(self._settings.topics.compactions, partition, OFFSET_BEGINNING)
        silent = 0
        # Offsets are assigned and never committed; librdkafka wants a name all the same.
        consumer = _consumer(self._settings, f"{self._settings.namespace}.asked")
        try:
            consumer.assign([place])
            while silent < SILENT_POLLS:
                message = consumer.poll(POLL_SECONDS)
                error = None if message is None else message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None and not error.retriable():
                    raise ServiceError(f"the requests cannot be read: {error.str()}")
                silent = silent + 1 if message is None else 0
                if message is not None and error is None:
                    yield message.offset() or 0, message.value() or b""
        finally:
            close_in_time("a reader of requests", consumer.close)
        raise ServiceError(f"{place.topic}[{partition}] cannot be read: Kafka does not answer")


def _consumer(settings: Settings, group: str) -> Consumer:
    try:
        return Consumer(
            {
                "bootstrap.servers": settings.kafka,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            }
        )
    except KafkaException as error:
        raise ServiceError(f"no consumer for the requests: {error}") from error
