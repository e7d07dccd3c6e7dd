"""What the sequencer does when Kafka's client does not answer, without a broker."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from surfacelog.processors.sequencer import transactions
from surfacelog.processors.sequencer.errors import FatalError
from surfacelog.processors.sequencer.transactions import Transactions

if TYPE_CHECKING:
    from confluent_kafka import Producer


class SilentProducer:
    """A producer whose broker is away. `offsets_sent` is what sending offsets waits for."""

    def __init__(self) -> None:
        self.offsets_sent = threading.Event()
        self.commits = 0

    def poll(self, _seconds: float) -> int:
        return 0

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self.offsets_sent.wait(30)

    def commit_transaction(self, _seconds: float) -> None:
        self.commits += 1
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))

    def produce(self, *_: Any, **__: Any) -> None:
        raise BufferError("the queue is full")


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> SilentProducer:
    for name in ("STALLED_SECONDS", "PATIENCE_SECONDS", "STOP_SECONDS"):
        monkeypatch.setattr(transactions, name, 0.05)
    return SilentProducer()


def commit(producer: SilentProducer, stop: threading.Event) -> None:
    Transactions(cast("Producer", producer), stop).commit({("appends", 0): 1}, b"member")


def test_a_client_that_hangs_ends_the_process(
    producer: SilentProducer, stop: threading.Event
) -> None:
    with pytest.raises(FatalError, match="hangs"):
        commit(producer, stop)
    producer.offsets_sent.set()
    assert producer.commits == 0


def test_a_call_is_not_repeated_for_ever(producer: SilentProducer, stop: threading.Event) -> None:
    producer.offsets_sent.set()
    with pytest.raises(FatalError, match="Kafka did not answer"):
        commit(producer, stop)
    assert producer.commits > 1


def test_a_process_that_is_to_stop_has_less_patience(
    producer: SilentProducer, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "PATIENCE_SECONDS", 60.0)
    producer.offsets_sent.set()
    stop.set()
    with pytest.raises(FatalError, match="Kafka did not answer"):
        commit(producer, stop)


def test_a_queue_that_stays_full_ends_the_process(
    producer: SilentProducer, stop: threading.Event
) -> None:
    with pytest.raises(FatalError, match="the queue is full"):
        Transactions(cast("Producer", producer), stop).produce("events", 0, b"s", b"")
