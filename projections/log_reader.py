"""Reading sessions back from the log: by session and range of seqs, committed batches only."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from redis import Redis, RedisCluster
from redis.exceptions import RedisError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from surfacelog.projections.keys import Keys
from surfacelog.projections.log_index import offset_before
from surfacelog.schemas.bounded_call import close_in_time
from surfacelog.schemas.codec import unpack_items
from surfacelog.schemas.errors import CorruptLogError, NotFoundError, ServiceError
from surfacelog.schemas.topics import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import Message

    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import EventBatch
    from surfacelog.schemas.settings import Settings

CALL_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 0.1
POLL_SECONDS: Final = 0.5
POLL_RECORDS: Final = 500
STALLED_SECONDS: Final = 30.0
"""Longer than an open transaction of a dead sequencer can hold a partition back."""

_BEYOND_ANY_SEQ: Final = 2**63

_log = structlog.get_logger()


class SessionIndex:
    """The packed index of a session's appends that the projector keeps in Redis.

    It only says where to begin to read: an index that is lost, or a Redis that does not answer,
    makes a read slower and not wrong.
    """

    def __init__(self, settings: Settings) -> None:
        self._url = settings.redis
        self._keys = Keys(settings.namespace)
        self._client: Redis | RedisCluster | None = None

    def read(self, session_id: str) -> bytes:
        """Return the pairs (first_seq, offset) of `projections.log_index`; empty when unknown."""
        try:
            if self._client is None:
                self._client = _connect(self._url)
            found = self._client.get(self._keys.session(session_id, "x"))
        except (RedisError, OSError) as error:
            _log.warning("log index unavailable, scanning", session=session_id, error=str(error))
            return b""
        return found if isinstance(found, bytes) else b""


class LogReader:
    """Reads batches and events of one session. Without an index it scans the partition.

    What was written before a read began is read, also what a sequencer was just committing;
    what is written later is not.
    """

    def __init__(self, settings: Settings, codec: Codec, index: SessionIndex | None = None) -> None:
        self._settings = settings
        self._codec = codec
        self._index = index
        self._admin = AdminClient({"bootstrap.servers": settings.kafka})
        self._partitions = 0

    def batches(
        self, session_id: str, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[int, EventBatch]]:
        """Give (Kafka offset, batch) of every append that holds a seq of `first` to `last`.

        Appends without events count by the seq at which they stand. `last` None means the end of
        the log; from the session's next seq on there is nothing yet. Raises NotFoundError when
        the session has no append or ends before `first`, CorruptLogError when seqs are missing,
        ServiceError when Kafka does not answer.
        """
        start = self._indexed_offset(session_id, first)
        next_seq: int | None = None
        for offset, batch in self._scan(session_id, start):
            if next_seq is None and start != OFFSET_BEGINNING and _is_late(batch, first):
                _log.warning("log index does not fit the log, scanning", session=session_id)
                yield from self._without_index().batches(session_id, first, last)
                return
            _check_next(batch, next_seq, from_start=start == OFFSET_BEGINNING)
            next_seq = batch.next_seq
            if last is not None and batch.first_seq > last:
                break
            if batch.next_seq > first or batch.first_seq >= first:
                yield offset, batch
            if last is not None and batch.next_seq > last:
                break
        if next_seq is None and start != OFFSET_BEGINNING:
            yield from self._without_index().batches(session_id, first, last)
        elif next_seq is None:
            raise NotFoundError(f"no session {session_id!r} in {self._settings.namespace!r}")
        elif first > next_seq:
            raise NotFoundError(f"{session_id} ends before seq {first}: {next_seq} is its next")

    def events(
        self, session_id: str, first: int = 0, last: int | None = None
    ) -> Iterator[JsonObject]:
        """Give the events with seqs `first` to `last`, chunk runs unpacked, citations absolute.

        Raises what `batches` raises.
        """
        for _, batch in self.batches(session_id, first, last):
            for event in unpack_items(batch.items, batch.first_seq):
                seq = event["seq"]
                if isinstance(seq, int) and seq >= first and (last is None or seq <= last):
                    yield event

    def end_seq(self, session_id: str) -> int:
        """Return the last seq of the session, -1 when it has no event.

        Raises what `batches` raises.
        """
        end: int | None = None
        for _, batch in self._scan(session_id, self._indexed_offset(session_id, _BEYOND_ANY_SEQ)):
            end = batch.next_seq - 1
        if end is None and self._index is not None:
            return self._without_index().end_seq(session_id)
        if end is None:
            raise NotFoundError(f"no session {session_id!r} in {self._settings.namespace!r}")
        return end

    def _without_index(self) -> LogReader:
        return LogReader(self._settings, self._codec)

    def _indexed_offset(self, session_id: str, seq: int) -> int:
        if self._index is None:
            return OFFSET_BEGINNING
        offset = offset_before(self._index.read(session_id), seq)
        return OFFSET_BEGINNING if offset is None else offset

    def _scan(self, session_id: str, start: int) -> Iterator[tuple[int, EventBatch]]:
        key = session_id.encode()
        for offset, payload in self._records(session_id, key, start):
            yield offset, self._codec.decode_batch(payload)

    def _records(self, session_id: str, key: bytes, start: int) -> Iterator[tuple[int, bytes]]:
        """Give the committed records of a key from offset `start` to the end of now."""
        topic = self._settings.topics.events
        partition = partition_of(session_id, self._partition_count())
        place = TopicPartition(topic, partition, start)
        end = self._end(place)
        with self._consumer() as consumer:
            consumer.assign([place])
            position, deadline = max(start, 0), time.monotonic() + STALLED_SECONDS
            while position < end:
                reached = position
                for message in _arrived(consumer):
                    reached = _offset(message)
                    if message.error() is None and reached < end and message.key() == key:
                        value = message.value()
                        assert value is not None  # batches are never deleted one by one
                        yield reached, value
                # Markers and aborted records move it too, so it passes the end without a record.
                reached = max(reached, consumer.position([place])[0].offset)
                if reached > position:
                    position, deadline = reached, time.monotonic() + STALLED_SECONDS
                elif time.monotonic() > deadline:
                    raise ServiceError(
                        f"{topic}[{partition}] stands at offset {position} of {end} for "
                        f"{STALLED_SECONDS:g} s: is a transaction left open?"
                    )

    def _end(self, place: TopicPartition) -> int:
        """Return the end of the partition with what is not committed yet, to be waited for."""
        retrying = Retrying(
            retry=retry_if_exception_type(KafkaException),
            stop=stop_after_delay(CALL_SECONDS),
            wait=wait_fixed(RETRY_SECONDS),
            reraise=True,
        )
        try:
            return retrying(self._listed_end, TopicPartition(place.topic, place.partition))
        except (KafkaException, TimeoutError) as error:
            raise ServiceError(f"Kafka does not tell the end of {place.topic}: {error}") from error

    def _listed_end(self, place: TopicPartition) -> int:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # untyped in the client
        (listed,) = self._admin.list_offsets(
            {place: latest},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=CALL_SECONDS,
        ).values()
        try:
            return int(listed.result(2 * CALL_SECONDS).offset)
        except KafkaException:
            # The client keeps the leader epoch that it saw first, so that after a restart of the
            # broker no answer would come until it reads the metadata again.
            self._admin.list_topics(place.topic, timeout=CALL_SECONDS)
            raise

    def _partition_count(self) -> int:
        """Return the pinned count: asked once, since it never changes."""
        if not self._partitions:
            topic = self._settings.topics.events
            try:
                known = self._admin.list_topics(topic, timeout=CALL_SECONDS).topics[topic]
            except KafkaException as error:
                raise ServiceError(f"Kafka does not answer: {error}") from error
            if known.error is not None or not known.partitions:
                raise NotFoundError(f"no namespace {self._settings.namespace!r}: {known.error}")
            self._partitions = len(known.partitions)
        return self._partitions

    @contextmanager
    def _consumer(self) -> Iterator[Consumer]:
        consumer = Consumer(
            {
                "bootstrap.servers": self._settings.kafka,
                # Offsets are assigned and never committed; librdkafka wants a name all the same.
                "group.id": f"{self._settings.namespace}.log-reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 100,
            }
        )
        try:
            yield consumer
        finally:
            close_in_time("a log reader", consumer.close)


def _arrived(consumer: Consumer) -> list[Message]:
    """Return what comes next, without a wait for more; the end of the partition comes too."""
    first = consumer.poll(POLL_SECONDS)
    messages = [] if first is None else [first, *consumer.consume(POLL_RECORDS, 0)]
    for message in messages:
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise ServiceError(f"the log cannot be read: {error}")
    return messages


def _offset(message: Message) -> int:
    offset = message.offset()
    return -1 if offset is None else offset


def _is_late(batch: EventBatch, first: int) -> bool:
    """Tell whether an indexed read began too late: every log begins with an open."""
    return batch.first_seq > first or (first == 0 and batch.opened is None)


def _check_next(batch: EventBatch, expected: int | None, *, from_start: bool) -> None:
    if expected is None:
        expected = 0 if from_start else batch.first_seq
    if batch.first_seq != expected:
        raise CorruptLogError(
            f"{batch.session_id}: the log goes on at seq {batch.first_seq}, but {expected} is "
            "next: seqs are missing or used twice",
            session=batch.session_id,
        )


def _connect(url: str) -> Redis | RedisCluster:
    node = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=3)
    clustered = node.info("cluster").get("cluster_enabled")
    if not clustered:
        return node
    node.close()
    return RedisCluster.from_url(url, socket_timeout=5, socket_connect_timeout=3)
