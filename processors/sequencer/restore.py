"""Taking partitions over: what the group has read, and the state of every session (DESIGN 4).

The order is what makes it safe, each step was found by breaking it:

(a) the group's committed offsets, asked for until they are stable. While a predecessor has sent
    offsets and not finished its transaction, the answer does not come. A commit that lands later
    is impossible from then on: the predecessor's membership is stale.
(b) only then the ends of the log and of the snapshots: everything that was committed together
    with the offsets of (a) lies before them. They are the ends with open transactions counted:
    the last stable offset may lie below what a second owner committed behind the open
    transaction of a first one.
(c) snapshots, then the log from their marker, until the position has passed both ends. Aborted
    records and transaction markers move the position, but reading nothing never sets it.
(d) requests are read from the offsets of (a).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar, cast

import structlog
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from surfacelog.processors.sequencer.clients import log_consumer
from surfacelog.processors.sequencer.errors import FatalError
from surfacelog.processors.sequencer.partition import Partition
from surfacelog.processors.sequencer.sessions import Sessions
from surfacelog.processors.sequencer.snapshots import SnapshotLoader
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.bounded_call import close_in_time
from surfacelog.schemas.errors import CorruptLogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from confluent_kafka import Consumer

    from surfacelog.processors.sequencer.record import Record
    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.settings import Settings

CALL_SECONDS: Final = 2.0
FETCH_RECORDS: Final = 500
FETCH_SECONDS: Final = 0.1

PATIENCE_SECONDS: Final = 120.0
"""Longer than any sequencer's transaction may stay open. What does not come until then needs new
clients, or somebody who ends a hanging transaction (docs/DESIGN.md, known limits)."""

_START: Final = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # the client's gap
_END: Final = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client's gap

T = TypeVar("T")
_Place = tuple[str, int]

_log = structlog.get_logger()


class Restore:
    """Restores partitions, each with `hot` sessions decoded at most."""

    def __init__(self, settings: Settings, codec: Codec, group: Consumer, hot: int) -> None:
        self._settings = settings
        self._topics = settings.topics
        self._codec = codec
        self._group = group
        self._hot = hot
        self._admin = AdminClient({"bootstrap.servers": settings.kafka})

    def partitions(self, numbers: Iterable[int], pulse: Callable[[], None]) -> dict[int, Partition]:
        """Return the partitions with those numbers, ready for the next request.

        `pulse` is called between waits: it keeps the membership alive, and raises when the
        partitions are no longer ours or the process is to stop. Raises CorruptLogError when the
        log and the snapshots do not fit together, FatalError when Kafka does not let us read.
        """
        self._pulse = pulse
        owned = sorted(numbers)
        read = self._stable_offsets(owned)
        places = [
            (topic, n) for topic in (self._topics.sessions, self._topics.events) for n in owned
        ]
        ends = self._offsets(places, _END)
        starts = self._offsets(places, _START)
        loaders = self._load_snapshots(owned, starts, ends)
        partitions = {n: self._partition(n, read, loaders[n]) for n in owned}
        self._replay(partitions, loaders, starts, ends)
        return partitions

    def _stable_offsets(self, owned: list[int]) -> dict[_Place, int]:
        """Step (a); a topic that the group has not read yet starts at its beginning."""
        wanted = [TopicPartition(topic, n) for topic in self._topics.requests for n in owned]
        answers = self._answered(lambda: self._committed(wanted))
        offsets = {(each.topic, each.partition): each.offset for each in answers}
        unread = [place for place, offset in offsets.items() if offset < 0]
        return offsets | self._offsets(unread, _START)

    def _committed(self, wanted: list[TopicPartition]) -> list[TopicPartition]:
        answers: list[TopicPartition] = self._group.committed(wanted, CALL_SECONDS)
        for each in answers:
            if each.error is not None:
                raise KafkaException(each.error)
        return answers

    def _offsets(self, places: list[_Place], which: OffsetSpec) -> dict[_Place, int]:
        if not places:
            return {}
        wanted = {TopicPartition(*place): which for place in places}

        def ask() -> dict[_Place, int]:
            # The client keeps the leader epoch that it saw first: after a restart of the broker
            # every answer would be FENCED_LEADER_EPOCH, for ever.
            self._admin.list_topics(timeout=CALL_SECONDS)
            answers = self._admin.list_offsets(
                wanted,
                isolation_level=IsolationLevel.READ_UNCOMMITTED,
                request_timeout=CALL_SECONDS,
            )
            return {
                (tp.topic, tp.partition): answer.result(2 * CALL_SECONDS).offset
                for tp, answer in answers.items()
            }

        return self._answered(ask)

    def _answered(self, ask: Callable[[], T]) -> T:
        """Repeat a question until Kafka answers; it waits by itself while it cannot."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            self._pulse()
            try:
                return ask()
            except (KafkaException, TimeoutError) as error:
                if isinstance(error, KafkaException):
                    _check_readable(error.args[0])
                if time.monotonic() > deadline:
                    raise FatalError(_hanging(f"Kafka gave no answer ({error})")) from error
                _log.info("waiting for Kafka's answer", reason=str(error))

    def _load_snapshots(
        self, owned: list[int], starts: Mapping[_Place, int], ends: Mapping[_Place, int]
    ) -> dict[int, SnapshotLoader]:
        loaders = {n: SnapshotLoader(self._codec) for n in owned}

        def add(record: Record) -> None:
            value = record.value()
            if value is not None:
                loaders[record.partition()].add(record.key() or b"", value)

        topic = self._topics.sessions
        self._read({(topic, n): starts[topic, n] for n in owned}, ends, add)
        return loaders

    def _partition(
        self, number: int, read: Mapping[_Place, int], loader: SnapshotLoader
    ) -> Partition:
        offsets = {topic: read[topic, number] for topic in self._topics.requests}
        partition = Partition(number, offsets, Sessions(self._hot))
        for session_id, packed in loader.sessions():
            partition.sessions.put_packed(session_id, packed)
        return partition

    def _replay(
        self,
        partitions: Mapping[int, Partition],
        loaders: Mapping[int, SnapshotLoader],
        starts: Mapping[_Place, int],
        ends: Mapping[_Place, int],
    ) -> None:
        topic = self._topics.events
        begins = {}
        for number, partition in partitions.items():
            marker = loaders[number].marker
            partition.end = ends[topic, number]
            begin = starts[topic, number] if marker is None else marker
            if begin > partition.end:
                raise CorruptLogError(
                    f"{topic}[{number}] ends at {partition.end}, but snapshots were taken at"
                    f" {begin}: the log has lost records"
                )
            begins[topic, number] = begin
        self._read(begins, ends, lambda record: self._apply(partitions, record))

    def _apply(self, partitions: Mapping[int, Partition], record: Record) -> None:
        partition = partitions[record.partition()]
        payload = record.value() or b""
        batch = self._codec.decode_batch(payload)
        state = partition.sessions.get(batch.session_id)
        if state is None:
            state = SessionState.new(batch.session_id)
        if state.apply(batch):
            partition.sessions.put(batch.session_id, state)
            partition.note_batch(batch.session_id, len(payload))

    def _read(
        self,
        begins: Mapping[_Place, int],
        ends: Mapping[_Place, int],
        take: Callable[[Record], None],
    ) -> None:
        """Step (c) for one topic: hand over every committed record between begins and ends."""
        # Compared first: a consumer that finds nothing to read never gets a position.
        ahead = {place: at for place, at in begins.items() if at < ends[place]}
        if not ahead:
            return
        reader = log_consumer(self._settings)
        try:
            reader.assign([TopicPartition(*place, at) for place, at in ahead.items()])
            reached, moved = dict(ahead), time.monotonic()
            while any(at < ends[place] for place, at in reached.items()):
                self._pulse()
                _take_fetched(reader, take)
                before, reached = reached, _positions(reader, ahead)
                if reached != before:
                    moved = time.monotonic()
                elif time.monotonic() - moved > PATIENCE_SECONDS:
                    raise FatalError(_hanging(f"the log cannot be read beyond {reached}"))
        finally:
            close_in_time("a reader", reader.close)


def _take_fetched(reader: Consumer, take: Callable[[Record], None]) -> None:
    for message in reader.consume(FETCH_RECORDS, FETCH_SECONDS):
        reason = message.error()
        if reason is None:
            take(cast("Record", message))
        else:
            _check_readable(reason)


def _positions(reader: Consumer, places: Iterable[_Place]) -> dict[_Place, int]:
    asked = reader.position([TopicPartition(*place) for place in places])
    return {(place.topic, place.partition): int(place.offset) for place in asked}


def _hanging(what: str) -> str:
    return (
        f"{what} for {PATIENCE_SECONDS:g} s: if Kafka is up, a transaction hangs"
        " (docs/DESIGN.md, known limits, says how to end it)"
    )


_UNREADABLE: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)


def _check_readable(reason: KafkaError) -> None:
    """Raise FatalError for an answer that repeating cannot change."""
    if reason.fatal() or reason.code() in _UNREADABLE:
        raise FatalError(f"the sequencer cannot read its topics: {reason}")
