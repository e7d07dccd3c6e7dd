"""A sequencer on a real broker: admission end to end, restore, hand-over, an empty tail."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer
from tests.live_session import step_start, turn_start
from tests.sequencing import QUICK, Bus, Member, RawOwner, check_log, chunks, note, wait_until

from surfacelog.processors.sequencer.clients import group_name
from surfacelog.schemas.topics import MARKER_KEY_PREFIX

if TYPE_CHECKING:
    from surfacelog.processors.sequencer.record import Record
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

ALL = [0, 1, 2, 3]


@pytest.fixture
def bus(settings: Settings) -> Bus:
    return Bus(settings)


def test_appends_get_their_place_and_their_receipts(bus: Bus) -> None:
    member = Member(bus)
    member.wait_owns(ALL)
    owner = RawOwner("s-1")
    opened = bus.ask(owner.open())
    assert (opened.status, opened.epoch, opened.first_seq) == ("committed", 1, None)
    request = owner.append(note("a"), note("b"))
    first = bus.ask(request)
    assert (first.status, first.first_seq, first.last_seq) == ("committed", 0, 1)
    again = bus.ask(replace(request, attempt=1))
    assert (again.status, again.first_seq, again.last_seq) == ("duplicate", 0, 1)
    assert bus.ask(owner.append(note("c"))).first_seq == 2
    member.stop()
    assert check_log(bus) == {"s-1": 3}


def test_a_successor_goes_on_from_snapshots_and_tail(bus: Bus) -> None:
    """Rounds of 5 appends and states of 2 decoded sessions: every path of a restore is used."""
    tuning = replace(QUICK, tail_appends=5, hot_sessions=2, round_bytes=1)
    owners = [RawOwner(f"s-{n}") for n in range(12)]
    for generation in range(3):
        member = Member(bus, tuning=tuning)
        member.wait_owns(ALL)
        for owner in owners:
            bus.send(owner.append() if generation else owner.open())
            bus.send(owner.append())
        bus.wait_receipt(replace(owners[-1].append(), append_seq=owners[-1].append_seq - 2))
        owners[-1].append_seq -= 1
        member.stop()
    # The session's opening is no event, and its round trip one more append each time.
    assert check_log(bus) == {f"s-{n}": 5 for n in range(12)}
    assert {r.status for r in bus.receipts()} == {"committed"}


def test_hand_over_writes_the_marker_at_the_end_of_the_log(bus: Bus) -> None:
    member = Member(bus)
    member.wait_owns(ALL)
    owner = RawOwner("s-1")
    bus.ask(owner.open())
    bus.ask(owner.append())
    member.stop()
    home = bus.partition("s-1")
    wait_until("the marker", lambda: bool(_markers(bus)))  # readers see a commit a little later
    markers = _markers(bus)
    assert [record.partition() for record in markers] == [home]
    marker = bus.codec.decode_marker(markers[0].value())
    last = max(r.offset() for r in bus.read(bus.settings.topics.events))
    assert (marker.partition, marker.offset) == (home, last + 1)


def test_a_large_state_is_snapshot_in_parts(bus: Bus) -> None:
    """A header of random text does not shrink: its snapshot needs several records."""
    noise = "".join(map(chr, random.Random(7).choices(range(0x4E00, 0x9000), k=600_000)))
    member = Member(bus)
    member.wait_owns(ALL)
    owner = RawOwner("s-1")
    request = owner.open()
    assert request.open is not None
    header = {**request.open.header, "agentPreset": noise}
    assert (
        bus.ask(replace(request, open=replace(request.open, header=header))).status == "committed"
    )
    member.stop()
    keys = [r.key() for r in bus.read(bus.settings.topics.sessions) if not _is_marker(r)]
    assert keys[:2] == [b"s-1", b"s-1\x001"]
    assert len(keys) > 1
    successor = Member(bus)
    successor.wait_owns(ALL)
    assert bus.ask(owner.append()).status == "committed"
    state = successor.sequencer.partitions[bus.partition("s-1")].sessions.get("s-1")
    assert state is not None
    assert state.header == header
    successor.stop()


def test_an_empty_tail_is_restored_at_once(bus: Bus) -> None:
    """Partitions that hold nothing, or nothing but an aborted record, must not be waited for.

    Seen to fail: with `begins` not compared with `ends` first, the restore never ends.
    """
    aborted = Producer(
        {"bootstrap.servers": bus.settings.kafka, "transactional.id": bus.settings.namespace}
    )
    aborted.init_transactions(15)
    aborted.begin_transaction()
    for topic in (bus.settings.topics.events, bus.settings.topics.sessions):
        aborted.produce(topic, b"never", b"s", partition=1)
    aborted.flush(10)
    aborted.abort_transaction(10)
    for _ in range(2):
        member = Member(bus)
        member.wait_owns(ALL, seconds=5)
        if _ == 0:
            bus.ask(RawOwner("s-1").open())
        member.stop()


def test_two_sequencers_share_and_hand_over(bus: Bus) -> None:
    first = Member(bus)
    first.wait_owns(ALL)
    owners = [RawOwner(f"s-{n}") for n in range(8)]
    for owner in owners:
        bus.send(owner.open())
    second = Member(bus)
    wait_until("an even split", lambda: len(first.owns()) == len(second.owns()) == 2)
    assert sorted(first.owns() + second.owns()) == ALL
    for owner in owners:
        bus.send(owner.append(note("a")))
    first.stop()
    second.wait_owns(ALL)
    for owner in owners:
        assert bus.ask(owner.append(note("b"))).status == "committed"
    second.stop()
    assert check_log(bus) == {f"s-{n}": 2 for n in range(8)}


def test_a_member_with_another_subscription_stops_the_work(bus: Bus) -> None:
    """Seen to fail: without the comparison of numbers, it works on partitions that it half owns."""
    member = Member(bus)
    member.wait_owns(ALL)
    stranger = Consumer(
        {
            "bootstrap.servers": bus.settings.kafka,
            "group.id": group_name(bus.settings),
            "partition.assignment.strategy": "range",
            "session.timeout.ms": 6_000,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    stranger.subscribe([bus.settings.topics.appends])
    wait_until("the stranger's partitions", lambda: _polled_assignment(stranger))
    wait_until("the sequencer to stop its work", lambda: member.owns() == [])
    owner = RawOwner("s-1")
    bus.send(owner.open())
    for _ in range(20):
        stranger.poll(0.05)
    assert bus.batches() == []
    stranger.close()
    member.wait_owns(ALL)
    assert bus.ask(owner.append()).status == "committed"
    member.stop()
    assert check_log(bus) == {"s-1": 1}


def test_load_is_committed_in_large_batches(bus: Bus) -> None:
    """Appends that wait before the sequencer starts share transactions, in order."""
    owner = RawOwner("s-1")
    bus.send(owner.open())
    bus.send(owner.append(turn_start(), step_start()))
    for _ in range(300):
        bus.send(owner.append(chunks(5)))
    member = Member(bus)
    bus.wait_receipt(replace(owner.append(), append_seq=301))
    member.stop()
    assert check_log(bus) == {"s-1": 2 + 300 * 5}
    stamps = {batch.admitted_at for batch in bus.batches()}
    assert len(stamps) < 20


def _markers(bus: Bus) -> list[Record]:
    return [r for r in bus.read(bus.settings.topics.sessions) if _is_marker(r)]


def _is_marker(record: Record) -> bool:
    return (record.key() or b"").startswith(MARKER_KEY_PREFIX)


def _polled_assignment(consumer: Consumer) -> bool:
    consumer.poll(0.05)
    return bool(consumer.assignment())
