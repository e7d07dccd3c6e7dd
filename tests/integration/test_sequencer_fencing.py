"""The fencing and restore rules of DESIGN 4, each broken on purpose and seen to fail.

A member that is stopped at a gate does not poll, so its group drops it after 6 s; its
transaction stays open, because its timeout is longer. The successor runs in the same process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.sequencing import (
    QUICK,
    Bus,
    Gate,
    Member,
    RawOwner,
    check_log,
    give_time,
    note,
    wait_until,
)

from surfacelog.processors.sequencer import transactions

if TYPE_CHECKING:
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

ALL = [0, 1, 2, 3]
PATIENT = replace(QUICK, transaction_timeout=60_000, max_poll_interval=300_000)
"""For members whose work is to be fenced, not timed out."""
DROPPED = replace(QUICK, transaction_timeout=60_000)
"""For members that the group drops while they stand at a gate."""


@pytest.fixture
def bus(settings: Settings) -> Bus:
    return Bus(settings)


def test_a_predecessors_late_commit_is_waited_for(bus: Bus) -> None:
    """The first member's records and commit come after the second was assigned.

    Seen to fail: with the ends of the log taken before the stable offsets, the second one knows
    nothing of the late append; with the offsets asked for by a read_uncommitted consumer, it
    admits it a second time.
    """
    gate = Gate("commit_transaction", late_records=True)
    owner = RawOwner("s-1")
    first = Member(bus, gate, tuning=DROPPED)
    first.wait_owns(ALL)
    late = owner.open()
    bus.send(late)
    gate.wait_reached()
    second = Member(bus, tuning=PATIENT)
    wait_until("the second one's assignment", lambda: bool(_assigned(second)))
    give_time(lambda: second.owns() == ALL)  # it must be waiting for the first one's offsets
    following = owner.append(note("a"))
    bus.send(following)
    gate.open()
    assert bus.wait_receipt(late).epoch == 1
    assert bus.wait_receipt(following).first_seq == 0
    first.stop()
    second.stop()
    assert check_log(bus) == {"s-1": 1}


def test_a_third_owner_sees_what_the_second_committed_behind_an_open_transaction(
    bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one's records reach the log late, in front of the second one's.

    Seen to fail: with the last stable offset in place of the end, the third owner restores
    without the second one's append.
    """
    owner = RawOwner("s-1")
    first = Member(bus)
    first.wait_owns(ALL)
    bus.ask(owner.open())
    first.stop()

    before_records = Gate("produce", bus.settings.topics.events)
    before_offsets = Gate("send_offsets_to_transaction")
    monkeypatch.setattr(transactions, "STALLED_SECONDS", 120.0)
    first = Member(bus, before_records, before_offsets, tuning=DROPPED)
    first.wait_owns(ALL)
    append = owner.append(note("a"))
    bus.send(append)
    before_records.wait_reached()
    gate = Gate("produce", bus.settings.topics.events)
    second = Member(bus, gate, tuning=replace(PATIENT, hand_over_seconds=0.0))
    second.wait_owns(ALL)
    gate.wait_reached()
    before_records.open()
    before_offsets.wait_reached()
    events, home = bus.settings.topics.events, bus.partition("s-1")
    behind = bus.end(events, home)
    gate.open()
    wait_until("the second one's commit", lambda: _read_to(second, home, behind))
    second.stop()

    third = Member(bus, tuning=PATIENT)
    wait_until("the third one's assignment", lambda: bool(_assigned(third)))
    following = owner.append(note("b"))
    bus.send(following)
    give_time(lambda: third.owns() == ALL)  # it must be waiting for the first one's end
    before_offsets.open()
    assert bus.wait_receipt(following).first_seq == 1
    first.stop()
    third.stop()
    assert check_log(bus) == {"s-1": 2}


def test_a_member_that_was_dropped_commits_nothing(bus: Bus) -> None:
    """The first one wakes up with records that the second has admitted meanwhile, and rejoins.

    Seen to fail: with a transaction that polls on and takes its membership after that, so that
    it spans the rebalance, both commit the append.
    """
    # Its records are not in the log yet, or the second one would wait for their transaction.
    gate = Gate("produce", bus.settings.topics.events)
    owner = RawOwner("s-1")
    first = Member(bus, gate, tuning=DROPPED)
    first.wait_owns(ALL)
    opening = owner.open()
    bus.send(opening)
    gate.wait_reached()
    second = Member(bus, tuning=PATIENT)
    second.wait_owns(ALL)
    append = owner.append(note("a"))
    bus.send(append)
    home = bus.partition("s-1")
    wait_until("the second one's commit", lambda: _next_seq(second, home) == 1)
    gate.open()
    wait_until("both at work", lambda: len(first.owns()) == len(second.owns()) == 2)
    assert bus.ask(owner.append(note("b"))).first_seq == 1
    first.stop()
    second.stop()
    assert check_log(bus) == {"s-1": 2}


def test_a_zombies_snapshots_do_not_land(bus: Bus) -> None:
    """The first one stands in a transaction that holds nothing but a snapshot and a marker.

    Seen to fail: with an empty list of offsets, the snapshot of the past lands behind the
    successor's, whose marker promises more, and the next owner finds a gap in the log.
    """
    gate = Gate("produce", bus.settings.topics.sessions)
    owner = RawOwner("s-1")
    first = Member(bus, gate, tuning=replace(DROPPED, tail_appends=1))
    first.wait_owns(ALL)
    bus.ask(owner.open())
    gate.wait_reached()
    second = Member(bus, tuning=PATIENT)
    second.wait_owns(ALL)
    for text in ("a", "b"):
        assert bus.ask(owner.append(note(text))).status == "committed"
    second.stop()
    gate.open()
    first.wait_owns(ALL)
    first.stop()
    snapshots = [r for r in bus.read(bus.settings.topics.sessions) if r.key() == b"s-1"]
    seqs = [bus.codec.decode_snapshot(r.value()).next_seq for r in snapshots]
    assert seqs == sorted(seqs)
    assert seqs[-1] == 2
    third = Member(bus)
    third.wait_owns(ALL)
    assert bus.ask(owner.append(note("c"))).first_seq == 2
    third.stop()
    assert check_log(bus) == {"s-1": 3}


def _assigned(member: Member) -> bool:
    return bool(member.sequencer.group.assigned)


def _read_to(member: Member, number: int, end: int) -> bool:
    partition = member.sequencer.partitions.get(number)
    return partition is not None and partition.end > end


def _next_seq(member: Member, number: int) -> int | None:
    partition = member.sequencer.partitions.get(number)
    state = None if partition is None else partition.sessions.get("s-1")
    return None if state is None else state.next_seq
