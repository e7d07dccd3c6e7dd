"""How fast a sequencer is, as a share of a raw transactional copy of the same requests.

    python -m tests.benchmarks.sequencer_bench [APPENDS] [--profile]

Both sides read the same bytes from a topic that was filled before, through the same `Group.fetch`,
with the sequencer's clients and batch size, and commit a transaction with the read offsets for
each batch. Time runs from the first fetched records to the return of the last commit.

- The raw copy writes each request, as it is, to one other topic: one record for each.
- The sequencer is the product's, with all that it does: it decodes, admits, chains and applies
  every append, and writes two records for each, batch and receipt, and the due snapshots.

They run in turns, each on topics of its own, so that what else this machine does meets both. A
ratio is that of two neighbouring runs; the median and the extremes of the ratios are printed,
and beside the rates the CPU time that a side's process took for each append, its client's
threads included.
"""

from __future__ import annotations

import cProfile
import pstats
import secrets
import statistics
import sys
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from surfacelog.processors.sequencer.clients import group_consumer, transactional_producer
from surfacelog.processors.sequencer.collector import calm_collector
from surfacelog.processors.sequencer.fencing import membership
from surfacelog.processors.sequencer.group import Group
from surfacelog.processors.sequencer.run import make_sequencer
from surfacelog.processors.sequencer.transactions import Transactions
from surfacelog.processors.sequencer.tuning import Tuning
from surfacelog.producers.bootstrap import create_namespace
from surfacelog.schemas.codec import offline_codec
from surfacelog.schemas.records import AppendRequest, ChunkRun, Item, Open
from surfacelog.schemas.settings import Settings
from surfacelog.schemas.topics import partition_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from surfacelog.processors.sequencer.record import Record
    from surfacelog.processors.sequencer.sequencer import Sequencer
    from surfacelog.schemas.json_value import JsonObject

PARTITIONS = 4
SESSIONS = 200
CHUNKS = 30
APPENDS = 100_000
"""By default so many that each partition has a snapshot round within the measured time."""

PAIRS = 5


@dataclass(frozen=True)
class Load:
    """Encoded requests with their keys, in the order in which they are sent."""

    records: list[tuple[bytes, bytes]]

    @property
    def mean_bytes(self) -> float:
        return statistics.mean(len(value) for _, value in self.records)


class Run(NamedTuple):
    """One measurement: appends a second, and microseconds of CPU time for each."""

    rate: float
    cpu: float


class TimedGroup(Group):
    """A group that notes when the first records were fetched."""

    began = cpu_began = 0.0

    def fetch(self, limit: int, seconds: float) -> list[Record]:
        records = super().fetch(limit, seconds)
        if records and not self.began:
            self.began, self.cpu_began = time.perf_counter(), time.process_time()
        return records

    def run_of(self, count: int) -> Run:
        """Return the measurement, whose last commit has just returned."""
        taken, cpu = time.perf_counter() - self.began, time.process_time() - self.cpu_began
        return Run(count / taken, cpu / count * 1e6)


def make_load(appends: int) -> Load:
    """Return sessions that are opened and then stream, an append being a run of 30 chunks."""
    codec = offline_codec()
    records = [
        (request.session_id.encode(), codec.encode_request(request))
        for request in _requests(appends)
    ]
    return Load(records)


def _requests(appends: int) -> Iterator[AppendRequest]:
    start: JsonObject = {"type": "turn/start", "time": 1_700_000_000_000, "data": {"turn": 1}}
    step: JsonObject = {**start, "type": "step/start", "data": {"turn": 1, "step": 1}}
    for place in range(appends):
        name, append_seq = f"session-{place % SESSIONS:032d}", place // SESSIONS
        items: tuple[Item, ...] = ()
        if append_seq == 1:
            items = (start, step)
        elif append_seq:
            deltas = tuple(f" tok{n}" for n in range(CHUNKS))
            time_of_first = 1_700_000_000_000 + append_seq * 600
            items = (ChunkRun(time_of_first, 1, 1, 0, "text", (20,) * (CHUNKS - 1), deltas),)
        yield AppendRequest(
            name,
            f"writer-{place % SESSIONS:032d}",
            0 if append_seq == 0 else 1,
            append_seq,
            0,
            "owner",
            items,
            Open({"version": 0, "id": name, "createdAt": 0}) if append_seq == 0 else None,
        )


def fill(settings: Settings, load: Load) -> None:
    """Make a namespace whose `appends` topic holds the load."""
    create_namespace(settings)
    producer = Producer(
        {
            "bootstrap.servers": settings.kafka,
            "enable.idempotence": True,  # else a retry would change the order of appends
            "compression.type": "lz4",
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for key, value in load.records:
        number = partition_of_key(key)
        producer.produce(settings.topics.appends, value, key, number)
    assert producer.flush(60) == 0


_PLACES: dict[bytes, int] = {}


def partition_of_key(key: bytes) -> int:
    """Return a session's partition; computed once each, it is slow in Python."""
    if key not in _PLACES:
        _PLACES[key] = partition_of(key.decode(), PARTITIONS)
    return _PLACES[key]


def raw_copy(settings: Settings, tuning: Tuning, count: int) -> Run:
    """Measure a transactional copy to the `compactions` topic."""
    producer = transactional_producer(settings, tuning)
    producer.init_transactions(20)
    group = TimedGroup(group_consumer(settings, tuning), settings.topics)
    group.join(lambda: None, lambda: None)
    while group.assigned is None:
        group.pulse()
    topic = settings.topics.compactions
    group.read_from([TopicPartition(p.topic, p.partition, 0) for p in group.assigned])
    copied = 0
    while copied < count:
        records = group.fetch(tuning.batch_appends, tuning.poll_seconds)
        if not records:
            continue
        producer.begin_transaction()
        for record in records:
            producer.produce(topic, record.value(), record.key(), record.partition())
        read = [p for p in group.consumer.position(group.assigned) if p.offset >= 0]
        producer.send_offsets_to_transaction(read, membership(group.consumer), 30)
        producer.commit_transaction(30)
        copied += len(records)
    run = group.run_of(count)
    group.leave()
    return run


def sequenced(
    settings: Settings, tuning: Tuning, count: int, profile: AbstractContextManager[object]
) -> Run:
    """Measure a sequencer."""
    producer, stop = transactional_producer(settings, tuning), threading.Event()
    sequencer = make_sequencer(
        settings, tuning, offline_codec(), Transactions(producer, stop), PARTITIONS, stop
    )
    group = TimedGroup(sequencer.group.consumer, settings.topics)
    sequencer.group = group
    sequencer.start()
    while not sequencer.partitions:
        sequencer.turn()
    with profile:
        while sum(sum(p.offsets.values()) for p in sequencer.partitions.values()) < count:
            sequencer.turn()
        run = group.run_of(count)
    _check_admitted(sequencer, count)
    sequencer.end()
    return run


def _check_admitted(sequencer: Sequencer, count: int) -> None:
    admitted = 0
    for key, number in _PLACES.items():
        state = sequencer.partitions[number].sessions.get(key.decode())
        assert state is not None, key
        admitted += state.next_seq
    assert admitted == _expected_events(count), f"{admitted} events in the log"


def _expected_events(count: int) -> int:
    opens, starts = min(count, SESSIONS), min(max(count - SESSIONS, 0), SESSIONS)
    return starts * 2 + (count - opens - starts) * CHUNKS


def measure(kind: str, load: Load, tuning: Tuning, profile: AbstractContextManager[object]) -> Run:
    """Measure one side on topics of its own, which are deleted again."""
    settings = Settings(namespace=f"bench-{secrets.token_hex(4)}", partitions=PARTITIONS)
    fill(settings, load)
    count = len(load.records)
    try:
        if kind == "raw":
            return raw_copy(settings, tuning, count)
        return sequenced(settings, tuning, count, profile)
    finally:
        admin = AdminClient({"bootstrap.servers": settings.kafka})
        for deleted in admin.delete_topics(list(settings.topics.all)).values():
            deleted.result(30)


def main() -> None:
    """Print the ratios, rates and CPU times of each batch size."""
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    profile = cProfile.Profile() if "--profile" in sys.argv else None
    load = make_load(numbers[0] if numbers else APPENDS)
    calm_collector()
    print(
        f"{len(load.records)} appends of {load.mean_bytes:.0f} bytes ({CHUNKS} chunks each),"
        f" {SESSIONS} sessions, {PARTITIONS} partitions"
    )
    for size in (Tuning().batch_appends, 1_000):
        tuning = replace(Tuning(), batch_appends=size)
        runs: dict[str, list[Run]] = {"raw": [], "sequencer": []}
        for _ in range(PAIRS):
            for kind, found in runs.items():
                found.append(measure(kind, load, tuning, profile or nullcontext()))
        _print(size, runs["raw"], runs["sequencer"])
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)


def _print(size: int, raw: list[Run], ours: list[Run]) -> None:
    ratios = [own.rate / copy.rate for copy, own in zip(raw, ours, strict=True)]
    print(
        f"batches of {size}: ratio {statistics.median(ratios):.2f}"
        f" ({min(ratios):.2f} to {max(ratios):.2f}); raw {_middle(raw)}, sequencer {_middle(ours)}",
        flush=True,
    )


def _middle(runs: list[Run]) -> str:
    rates = [run.rate for run in runs]
    cpu = statistics.median(run.cpu for run in runs)
    return (
        f"{statistics.median(rates):,.0f}/s ({min(rates):,.0f} to {max(rates):,.0f}, {cpu:.0f} us)"
    )


if __name__ == "__main__":
    main()
