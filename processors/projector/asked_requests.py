"""What was asked for because a session was full, as the topic of the requests tells (DESIGN 7).

The flag in Redis says it too, but may be lost with Redis, or with a projector that died between
the request and the flag. So before a first request the topic is read, once for each partition.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from surfacelog.schemas.bounded_call import close_in_time
from surfacelog.schemas.codec import DecodeError
from surfacelog.schemas.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.records import CompactionRequest
    from surfacelog.schemas.settings import Settings

POLL_SECONDS: Final = 1.0
SILENT_POLLS: Final = 15


class AskedRequests:
    """The ids of the pressure requests of each partition, with their sessions."""

    def __init__(self, settings: Settings, codec: Codec) -> None:
        self._settings = settings
        self._codec = codec
        self._of: dict[int, set[tuple[str, str]]] = {}

    def forget(self, partition: int) -> None:
        """Drop what is known of a partition: another projector may have asked meanwhile."""
        self._of.pop(partition, None)

    async def of(self, partition: int) -> set[tuple[str, str]]:
        """Return the (session, request id) pairs of a partition, to be added to by who asks.

        Raises ServiceError when Kafka does not answer.
        """
        if partition not in self._of:
            self._of[partition] = await asyncio.to_thread(self._read, partition)
        return self._of[partition]

    def _read(self, partition: int) -> set[tuple[str, str]]:
        found = (self._decoded(payload) for payload in self._payloads(partition))
        return {
            (request.session_id, request.request_id)
            for request in found
            if request is not None and request.trigger == "pressure"
        }

    def _decoded(self, payload: bytes) -> CompactionRequest | None:
        try:
            return self._codec.decode_compaction(payload)
        except DecodeError:
            return None  # the compactors report it

    def _payloads(self, partition: int) -> Iterator[bytes]:
        place = TopicPartition(self._settings.topics.compactions, partition, OFFSET_BEGINNING)
        silent = 0
        consumer = _consumer(self._settings)
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
                    yield message.value() or b""
        finally:
            close_in_time("a reader of requests", consumer.close)
        raise ServiceError(f"{place.topic}[{partition}] cannot be read: Kafka does not answer")


def _consumer(settings: Settings) -> Consumer:
    try:
        return Consumer(
            {
                "bootstrap.servers": settings.kafka,
                # Offsets are assigned and never committed; librdkafka wants a name all the same.
                "group.id": f"{settings.namespace}.asked",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            }
        )
    except KafkaException as error:
        raise ServiceError(f"no consumer for the requests: {error}") from error
