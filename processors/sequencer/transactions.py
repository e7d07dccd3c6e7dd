"""Transactions: the records of one batch of requests, and how far the requests were read.

Every call follows the error classes of DESIGN 4: what is retriable is repeated, and what is not
becomes TransactionAbortError (abort, drop what changed, read again) or FatalError (exit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from surfacelog.processors.sequencer.errors import (
    FatalError,
    TransactionAbortError,
    error_of_call,
)
from surfacelog.schemas.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from confluent_kafka import Message, Producer

CALL_SECONDS: Final = 10.0

T = TypeVar("T")

_log = structlog.get_logger()


class Transactions:
    """One transactional producer, one transaction at a time."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

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
        while True:
            try:
                self._producer.produce(topic, value, key, partition, on_delivery=told)
            except BufferError:
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
        self._repeat(
            lambda: self._producer.send_offsets_to_transaction(sent, membership, CALL_SECONDS)
        )
        failpoint("after_send_offsets")
        failpoint("before_commit")
        self._repeat(lambda: self._producer.commit_transaction(CALL_SECONDS))
        failpoint("after_commit")

    def abort(self) -> None:
        """Abort the open transaction; FatalError when Kafka ended this producer."""
        self._repeat(lambda: self._producer.abort_transaction(CALL_SECONDS))

    def _repeat(self, call: Callable[[], T]) -> T:
        while True:
            try:
                return call()
            except KafkaException as error:
                raised = error_of_call(error.args[0])
                if raised is not None:
                    raise raised from error
                _log.warning("repeating a transactional call", error=str(error.args[0]))
                # A retriable error may come back at once; serving the queue is a short wait.
                self._producer.poll(0.05)


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
