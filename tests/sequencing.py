"""Sequencers that run inside a test, and raw access to the topics around them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from surfacelog.processors.sequencer.clients import transactional_producer
from surfacelog.processors.sequencer.run import make_sequencer
from surfacelog.processors.sequencer.transactions import Transactions
from surfacelog.processors.sequencer.tuning import Tuning
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.chain import GENESIS, chain
from surfacelog.schemas.chunk_runs import unpack_items
from surfacelog.schemas.codec import Codec, offline_codec
from surfacelog.schemas.records import AppendRequest, ChunkRun, EventBatch, Item, Open, Receipt
from surfacelog.schemas.topics import partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from surfacelog.processors.sequencer.record import Record
    from surfacelog.processors.sequencer.sequencer import Sequencer
    from surfacelog.schemas.event_types import Role
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings

QUICK = Tuning(session_timeout=6_000, max_poll_interval=6_000, poll_seconds=0.05)
"""As quick as a broker permits: it allows no session timeout below 6 s."""


CALL_SECONDS = 15.0


def wait_until(what: str, true: Callable[[], bool], seconds: float = 30.0) -> None:
    """Return when the condition holds; fail with its name when it does not in time."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not true():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        pause.wait(0.02)


def give_time(true: Callable[[], bool], seconds: float = 2.0) -> None:
    """Wait for what must not happen, so that a broken rule has the time to show."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not true() and time.monotonic() < deadline:
        pause.wait(0.02)


class Gate:
    """Stops a thread where it calls one method, until the test opens it.

    What was produced before has reached the broker then; with `late_records` it is sent only
    when the gate opens.
    """

    def __init__(
        self, method: str, topic: str | None = None, *, late_records: bool = False
    ) -> None:
        self.method = method
        self.topic = topic
        self.late_records = late_records
        self._reached = threading.Event()
        self._open = threading.Event()

    def wait_reached(self, seconds: float = 20.0) -> None:
        assert self._reached.wait(seconds), f"nobody called {self.method}"

    def open(self) -> None:
        self._open.set()

    def pass_through(self, arguments: tuple[Any, ...]) -> None:
        if self.topic is None or arguments[0] == self.topic:
            self._reached.set()
            assert self._open.wait(90), f"the gate before {self.method} stayed closed"


class GatedProducer:
    """A producer that stops before gated calls."""

    def __init__(self, producer: Producer, gates: tuple[Gate, ...]) -> None:
        self._producer = producer
        self._gates = gates
        self._late: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._producer, name)
        gates = [gate for gate in self._gates if gate.method == name]
        if name == "produce" and any(gate.late_records for gate in self._gates):
            return lambda *a, **named: self._late.append(lambda: method(*a, **named))
        if not gates:
            return method

        def gated(*arguments: Any, **named: Any) -> Any:
            for gate in gates:
                if name != "produce":
                    self._producer.flush(10)
                gate.pass_through(arguments)
            for produce in self._late:
                produce()
            self._late.clear()
            return method(*arguments, **named)

        return gated


class Member:
    """One sequencer in a thread of this process. `status` is None while it runs."""

    def __init__(self, bus: Bus, *gates: Gate, tuning: Tuning = QUICK) -> None:
        self._stop = threading.Event()
        producer = transactional_producer(bus.settings, tuning)
        transactions = Transactions(cast("Producer", GatedProducer(producer, gates)), self._stop)
        self.sequencer: Sequencer = make_sequencer(
            bus.settings, tuning, bus.codec, transactions, bus.settings.partitions, self._stop
        )
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def owns(self) -> list[int]:
        return sorted(self.sequencer.partitions)

    def wait_owns(self, numbers: list[int], seconds: float = 30.0) -> None:
        wait_until(
            f"partitions {numbers}, but {self.owns()}; {self.error!r}",
            lambda: self.error is not None or self.owns() == numbers,
            seconds,
        )
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        """Stop it as SIGTERM does; raise what ended it otherwise."""
        self._stop.set()
        self.wait_end()
        if self.error is not None:
            raise self.error

    def wait_end(self, seconds: float = 30.0) -> None:
        self._thread.join(seconds)
        assert not self._thread.is_alive(), "the sequencer did not end"

    def _run(self) -> None:
        try:
            self.sequencer.run()
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            self.error = error


@dataclass
class Bus:
    """Raw producers and consumers of a namespace, as an agent of any language would have them."""

    settings: Settings
    codec: Codec = field(default_factory=offline_codec)
    _tails: dict[str, Tail] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._admin = AdminClient({"bootstrap.servers": self.settings.kafka})
        largest = self.settings.max_append_bytes + 4 * 1024 * 1024
        self._producer = Producer(
            {"bootstrap.servers": self.settings.kafka, "message.max.bytes": largest, "linger.ms": 1}
        )

    def send(self, request: AppendRequest, *, topic: str | None = None) -> None:
        """Send a request to its role's topic."""
        self.send_raw(
            topic or self.settings.topics.for_role(request.role),
            self.codec.encode_request(request),
            request.session_id.encode(),
            self.partition(request.session_id),
        )

    def send_raw(self, topic: str, value: bytes | None, key: bytes | None, partition: int) -> None:
        self._producer.produce(topic, value, key, partition)
        assert self._producer.flush(15) == 0

    def partition(self, session_id: str) -> int:
        return partition_of(session_id, self.settings.partitions)

    def batches(self) -> list[EventBatch]:
        """Return the committed log, all partitions."""
        records = self.read(self.settings.topics.events)
        return [self.codec.decode_batch(record.value()) for record in records]

    def receipts(self) -> list[Receipt]:
        records = self.read(self.settings.topics.receipts)
        return [self.codec.decode_receipt(record.value()) for record in records]

    def wait_receipt(self, request: AppendRequest, seconds: float = 30.0) -> Receipt:
        """Return the receipt of this very attempt."""
        found: list[Receipt] = []

        def arrived() -> bool:
            found[:] = [r for r in self.receipts() if _answers(r, request)]
            return bool(found)

        wait_until(f"a receipt for {request}", arrived, seconds)
        return found[0]

    def ask(self, request: AppendRequest, **more: Any) -> Receipt:
        self.send(request, **more)
        return self.wait_receipt(request)

    def end(self, topic: str, partition: int, *, stable: bool = False) -> int:
        """Return the end of a partition; the last stable offset on request."""
        level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
        deadline = time.monotonic() + CALL_SECONDS
        while True:
            try:
                return self._listed_end(TopicPartition(topic, partition), level)
            except KafkaException:
                # A restarted broker refuses the leader epoch of before, until metadata is read.
                if time.monotonic() > deadline:
                    raise
                self._admin.list_topics(timeout=CALL_SECONDS)

    def _listed_end(self, place: TopicPartition, level: IsolationLevel) -> int:
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client's gap
        asked = self._admin.list_offsets(
            {place: latest}, isolation_level=level, request_timeout=CALL_SECONDS
        )
        return int(asked[place].result(CALL_SECONDS).offset)

    def read(self, topic: str) -> list[Record]:
        """Return what is committed in a topic, up to its last stable offsets of now."""
        tail = self._tails.get(topic)
        if tail is None:
            tail = self._tails[topic] = Tail(self.settings, topic)
        ends = {n: self.end(topic, n, stable=True) for n in range(self.settings.partitions)}
        return tail.read(ends)


class Tail:
    """A topic, read from its beginning to wherever it ends."""

    def __init__(self, settings: Settings, topic: str) -> None:
        self._topic = topic
        self._records: list[Record] = []
        self._consumer = _reader(settings)
        self._consumer.assign([TopicPartition(topic, n, 0) for n in range(settings.partitions)])

    def read(self, ends: Mapping[int, int]) -> list[Record]:
        """Return all records before the ends."""
        deadline = time.monotonic() + 20
        while any(
            _position(self._consumer, self._topic, n) < end for n, end in ends.items() if end
        ):
            assert time.monotonic() < deadline, f"{self._topic} cannot be read to its end"
            messages = self._consumer.consume(500, 0.02)
            self._records += [cast("Record", m) for m in messages if not m.error()]
        return [r for r in self._records if r.offset() < ends[r.partition()]]


def _reader(settings: Settings) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": settings.kafka,
            "group.id": f"{settings.namespace}.test",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def _position(consumer: Consumer, topic: str, partition: int) -> int:
    (place,) = consumer.position([TopicPartition(topic, partition)])
    return place.offset


def _answers(receipt: Receipt, request: AppendRequest) -> bool:
    return (receipt.session_id, receipt.writer_id, receipt.append_seq, receipt.attempt) == (
        request.session_id,
        request.writer_id,
        request.append_seq,
        request.attempt,
    )


@dataclass
class RawOwner:
    """Writes one session as its owner, one request after the other, without any client of ours."""

    session_id: str
    writer_id: str = "agent"
    epoch: int = 0
    append_seq: int = 0

    def open(self) -> AppendRequest:
        self.epoch += 1
        return self._next((), Open(header_of(self.session_id)))

    def append(self, *items: Item) -> AppendRequest:
        return self._next(items or (note(f"append {self.append_seq}"),), None)

    def _next(self, items: tuple[Item, ...], opening: Open | None) -> AppendRequest:
        role: Role = "owner"
        epoch = 0 if opening else self.epoch
        request = AppendRequest(
            self.session_id, self.writer_id, epoch, self.append_seq, 0, role, items, opening
        )
        self.append_seq += 1
        return request


def header_of(session_id: str) -> JsonObject:
    """Return a session header."""
    return {"version": 0, "id": session_id, "createdAt": 0, "cwd": "/", "delegationDepth": 0}


def note(text: str) -> JsonObject:
    """Return an event that is admissible anywhere."""
    message: JsonObject = {
        "id": text[:20],
        "role": "user",
        "content": [{"type": "text", "text": text}],
        "source": {"kind": "user"},
    }
    return {"type": "user/message", "time": 1, "data": message, "surfaceOp": "append"}


def chunks(count: int, turn: int = 1, step: int = 1) -> ChunkRun:
    """Return a run of text chunks of an open step."""
    return ChunkRun(1, turn, step, 0, "text", (20,) * (count - 1), (" token",) * count)


def check_log(bus: Bus) -> dict[str, int]:
    """Check the whole log against itself and the receipts; return the next seq of each session.

    No seq twice and none missing, no append twice, an unbroken chain, the state that admission
    keeps folds from it, and every receipt says what the log holds.
    """
    states: dict[str, SessionState] = {}
    appends: dict[tuple[str, str, int], EventBatch] = {}
    for batch in bus.batches():
        state = states.setdefault(batch.session_id, SessionState.new(batch.session_id))
        identity = (batch.session_id, batch.writer_id, batch.append_seq)
        assert identity not in appends, f"{identity} is in the log twice"
        appends[identity] = batch
        assert batch.first_seq == state.next_seq, f"{identity}: seq {batch.first_seq}"
        unpacked = list(unpack_items(batch.items, batch.first_seq))
        assert [event["seq"] for event in unpacked] == [*range(batch.first_seq, batch.next_seq)]
        before = state.chain or GENESIS
        assert batch.chain == chain(before, batch, bus.codec.encode_items(batch.items))
        assert state.apply(batch)
    for receipt in bus.receipts():
        _check_receipt(receipt, appends)
    return {session_id: state.next_seq for session_id, state in states.items()}


def _check_receipt(receipt: Receipt, appends: Mapping[tuple[str, str, int], EventBatch]) -> None:
    batch = appends.get((receipt.session_id, receipt.writer_id, receipt.append_seq))
    if receipt.status == "refused":
        return
    assert batch is not None, f"{receipt} is not in the log"
    if batch.items:
        assert (receipt.first_seq, receipt.last_seq) == (batch.first_seq, batch.next_seq - 1)
    assert receipt.epoch == batch.epoch


def states_of(bus: Bus) -> Iterator[tuple[str, SessionState]]:
    """Yield each session's state, folded from the committed log."""
    states: dict[str, SessionState] = {}
    for batch in bus.batches():
        states.setdefault(batch.session_id, SessionState.new(batch.session_id)).apply(batch)
    yield from states.items()
