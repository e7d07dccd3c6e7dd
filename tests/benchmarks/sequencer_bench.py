"""How fast a sequencer is, as a share of a raw transactional copy of the same requests.

    python -m tests.benchmarks.sequencer_bench [APPENDS]

Both read the same records with the same client settings and the same way of fetching. The copy
writes each record to another topic and commits; the sequencer does all of its work: it decodes,
admits, chains and applies every append, and writes batch, receipt and due snapshots. They run
in turns, on topics of their own; the median run of each counts.
"""

from __future__ import annotations

import cProfile
import pstats
import secrets
import statistics
import sys
import threading
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from surfacelog.processors.sequencer.clients import group_consumer, transactional_producer
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

    from surfacelog.processors.sequencer.record import Record
    from surfacelog.processors.sequencer.sequencer import Sequencer
    from surfacelog.schemas.json_value import JsonObject

PARTITIONS = 4
SESSIONS = 200
CHUNKS = 30
ROUNDS = 3


@dataclass(frozen=True)
class Load:
    """Encoded requests with their keys, in the order in which they are sent."""

    records: list[tuple[bytes, bytes]]

    @property
    def mean_bytes(self) -> float:
        return statistics.mean(len(value) for _, value in self.records)


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


def raw_copy(settings: Settings, tuning: Tuning, count: int) -> float:
    """Return the records a second of a transactional copy to the `compactions` topic."""
    consumer = group_consumer(settings, tuning)
    producer = transactional_producer(settings, tuning)
    producer.init_transactions(20)
    consumer.subscribe(list(settings.topics.requests))
    copied, began = 0, 0.0
    while copied < count:
        first = consumer.poll(1)
        if first is None or first.error():
            continue
        began = began or time.perf_counter()
        messages = [first, *consumer.consume(tuning.batch_appends - 1, 0)]
        producer.begin_transaction()
        for message in cast("list[Record]", messages):
            producer.produce(
                settings.topics.compactions, message.value(), message.key(), message.partition()
            )
        offsets = [place for place in consumer.position(consumer.assignment()) if place.offset >= 0]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
        copied += len(messages)
    taken = time.perf_counter() - began
    consumer.close()
    return count / taken


def sequenced(
    settings: Settings, tuning: Tuning, count: int, profile: cProfile.Profile | None
) -> float:
    """Return the appends a second of a sequencer."""
    producer, stop = transactional_producer(settings, tuning), threading.Event()
    sequencer = make_sequencer(
        settings, tuning, offline_codec(), Transactions(producer, stop), PARTITIONS, stop
    )
    sequencer.start()
    while not sequencer.partitions:
        sequencer.turn()
    began = time.perf_counter()
    if profile is not None:
        profile.enable()
    while sum(sum(p.offsets.values()) for p in sequencer.partitions.values()) < count:
        sequencer.turn()
    if profile is not None:
        profile.disable()
    taken = time.perf_counter() - began
    _check_admitted(sequencer, count)
    sequencer.end()
    return count / taken


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


def main() -> None:
    """Print a line for each batch size: both rates and their ratio."""
    appends = int(sys.argv[1]) if len(sys.argv) > 1 else 60_000
    profile = cProfile.Profile() if "--profile" in sys.argv else None
    load = make_load(appends)
    print(
        f"{appends} appends of {load.mean_bytes:.0f} bytes ({CHUNKS} chunks each),"
        f" {SESSIONS} sessions, {PARTITIONS} partitions"
    )
    for size in (Tuning().batch_appends, 1_000):
        tuning = replace(Tuning(), batch_appends=size)
        rates: dict[str, list[float]] = {"raw": [], "sequencer": []}
        for _ in range(ROUNDS):
            for kind, measured in rates.items():
                settings = Settings(
                    namespace=f"bench-{secrets.token_hex(4)}", partitions=PARTITIONS
                )
                fill(settings, load)
                if kind == "raw":
                    measured.append(raw_copy(settings, tuning, appends))
                else:
                    measured.append(sequenced(settings, tuning, appends, profile))
                admin = AdminClient({"bootstrap.servers": settings.kafka})
                for deleted in admin.delete_topics(list(settings.topics.all)).values():
                    deleted.result(30)
        raw, ours = (statistics.median(rates[kind]) for kind in ("raw", "sequencer"))
        print(
            f"batches of {size}: raw {raw:,.0f}/s, sequencer {ours:,.0f}/s, ratio {ours / raw:.2f}",
            flush=True,
        )
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    main()
