"""Transactions: the records of one batch of requests, and how far the requests were read.

Every call follows the error classes of DESIGN 4: what is retriable is repeated, and what is not
becomes TransactionAbortError (abort, drop what changed, read again) or FatalError (exit). Nothing
is repeated for ever: a new process has new clients and, under the same transactional.id, ends
what this one left open.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from surfacelog.processors.sequencer.errors import (
    FatalError,
    TransactionAbortError,
    error_of_call,
)
from surfacelog.schemas.bounded_call import CallThread, StalledCallError
from surfacelog.schemas.failpoints import failpoint

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message, Producer

CALL_SECONDS: Final = 5.0
STALLED_SECONDS: Final = 8.0
"""How long a call may take that should have returned after CALL_SECONDS."""

PATIENCE_SECONDS: Final = 60.0
"""How long Kafka may keep one call from its end; a restart of a single broker takes 15 s."""

STOP_SECONDS: Final = 5.0
"""The same when the process was told to stop: what kills it otherwise waits 15 s."""

PAUSE_SECONDS: Final = (0.02, 0.5)
"""The shortest and the longest pause before a call is repeated."""

T = TypeVar("T")

_log = structlog.get_logger()


class Transactions:
    """One transactional producer, one transaction at a time.

    Every method raises FatalError when Kafka does not let it end in time, which is short once
    `stop` is set.
    """

    def __init__(self, producer: Producer, stop: threading.Event) -> None:
        self._producer = producer
        self._stop = stop
        self._thread = CallThread()

    def start(self) -> None:
        """End what an earlier process of the same transactional.id left open."""
        self._repeat(lambda: self._producer.init_transactions(CALL_SECONDS))

    def begin(self) -> None:
        """Begin a transaction."""
        self._repeat(self._producer.begin_transaction)
        failpoint("after_begin")

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes,
        value: bytes,
        on_offset: Callable[[int], None] | None = None,
    ) -> None:
        """Add a record; `on_offset` is told where it was delivered."""
        told = None if on_offset is None else _offset_of_delivery(on_offset)
        started = time.monotonic()
        while True:
            try:
                self._producer.produce(topic, value, key, partition, on_delivery=told)
            except BufferError as full:
                self._check_patience(started, full)
                # The client's queue is full: serving it makes room as brokers answer.
                self._producer.poll(0.1)
            except KafkaException as error:
                raise _error_of_produce(error.args[0]) from error
            else:
                return

    def commit(self, offsets: Mapping[tuple[str, int], int], membership: bytes) -> None:
        """Commit the records together with the offsets of requests, by topic and partition.

        Kafka fences a sequencer by its membership when offsets are sent, and only then: a
        transaction without offsets would not be fenced at all. So there must be some.
        """
        if not offsets:
            raise AssertionError("a transaction without offsets is not fenced")
        sent = [TopicPartition(topic, number, at) for (topic, number), at in offsets.items()]
        self._repeat(lambda: self._send_offsets(sent, membership))
        failpoint("after_send_offsets")
        failpoint("before_commit")
        self._repeat(lambda: self._producer.commit_transaction(CALL_SECONDS))
        failpoint("after_commit")

    def abort(self) -> None:
        """Abort the open transaction; FatalError when Kafka ended this producer."""
        self._repeat(lambda: self._producer.abort_transaction(CALL_SECONDS))

    def _send_offsets(self, offsets: list[TopicPartition], membership: bytes) -> None:
        """Send offsets; FatalError when that does not return, as after a restart of the broker.

        The client then waits for ever on the group coordinator that it remembers
        (librdkafka issues 5456 and 5511): only another client goes on.
        """
        send = self._producer.send_offsets_to_transaction
        try:
            self._thread.call(
                "sending offsets", lambda: send(offsets, membership, CALL_SECONDS), STALLED_SECONDS
            )
        except StalledCallError as error:
            raise FatalError(f"the Kafka client hangs: {error.message}") from error

    def _repeat(self, call: Callable[[], T]) -> T:
        started = time.monotonic()
        pause, longest = PAUSE_SECONDS
        while True:
            try:
                return call()
            except KafkaException as error:
                raised = error_of_call(error.args[0])
                if raised is not None:
                    raise raised from error
                self._check_patience(started, error)
                _log.warning("repeating a transactional call", error=str(error.args[0]))
                # A retriable error may come back at once; serving the queue is a short wait.
                self._producer.poll(pause)
                pause = min(2 * pause, longest)

    def _check_patience(self, started: float, reason: Exception) -> None:
        patience = STOP_SECONDS if self._stop.is_set() else PATIENCE_SECONDS
        if time.monotonic() - started > patience:
            raise FatalError(f"Kafka did not answer for {patience:g} s: {reason}") from reason


def _offset_of_delivery(
    on_offset: Callable[[int], None],
) -> Callable[[KafkaError | None, Message], None]:
    def delivered(error: KafkaError | None, message: Message) -> None:
        offset = message.offset()
        if error is None and offset is not None:
            on_offset(offset)

    return delivered


def _error_of_produce(reason: KafkaError) -> TransactionAbortError | FatalError:
    if reason.code() == KafkaError._STATE:
        # The transaction failed meanwhile; if the producer did too, the abort will tell.
        return TransactionAbortError(f"the transaction takes no more records: {reason}")
    return FatalError(f"a record cannot be produced: {reason}")
