"""The parts of the sequencer that need no broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from surfacelog.processors.sequencer.assignment import owned_numbers
from surfacelog.processors.sequencer.chunks import in_chunks
from surfacelog.processors.sequencer.errors import (
    AssignmentError,
    FatalError,
    TransactionAbortError,
    error_of_call,
)
from surfacelog.processors.sequencer.fencing import generation_of, membership
from surfacelog.processors.sequencer.partition import Overlay, Partition
from surfacelog.processors.sequencer.sessions import Packed, Sessions
from surfacelog.processors.sequencer.snapshots import (
    PART_BYTES,
    SnapshotLoader,
    marker_key,
    snapshot_records,
)
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.codec import offline_codec
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.records import SnapshotMarker
from surfacelog.schemas.topics import Topics

if TYPE_CHECKING:
    from surfacelog.processors.sequencer.record import Record

TOPICS = Topics("ns")
CODEC = offline_codec()


def test_a_consumer_that_never_joined_has_no_membership() -> None:
    """Kafka would commit for it, unfenced. Also pins the format that librdkafka writes."""
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0})
    with pytest.raises(TransactionAbortError):
        membership(consumer)
    consumer.close()


def test_generations_are_read_from_the_metadata() -> None:
    assert generation_of(b"CGMDv2:\x07\x00\x00\x00g\x00m\x00\x01") == 7
    assert generation_of(b"CGMDv2:\xff\xff\xff\xffg\x00\x00\x01") == -1
    for unknown in (b"CGMDv3:\x07\x00\x00\x00g", b"CGMDv2:\x07", b""):
        with pytest.raises(FatalError):
            generation_of(unknown)


def test_errors_of_calls_say_what_to_do() -> None:
    def raised(**flags: bool) -> type[Exception] | None:
        found = error_of_call(KafkaError(KafkaError._FAIL, "why", **flags))
        return None if found is None else type(found)

    assert raised(retriable=True) is None
    assert raised(txn_requires_abort=True) is TransactionAbortError
    assert raised(fatal=True, retriable=True) is FatalError
    assert raised() is FatalError


def test_equal_numbers_of_all_topics_are_owned() -> None:
    assigned = [TopicPartition(topic, n) for topic in TOPICS.requests for n in (1, 2)]
    assert owned_numbers(assigned, TOPICS, 4) == {1, 2}
    assert owned_numbers([], TOPICS, 4) == set()
    with pytest.raises(AssignmentError, match="different partitions"):
        owned_numbers(assigned[:-1], TOPICS, 4)
    with pytest.raises(AssignmentError, match="make a new namespace"):
        owned_numbers(assigned, TOPICS, 2)


def test_chunks_hold_what_fits() -> None:
    records = cast("list[Record]", [b"x" * n for n in (4, 4, 4, 20, 1)])
    assert [[len(r) for r in chunk] for chunk in in_chunks(records, 10)] == [[4, 4], [4], [20], [1]]
    assert list(in_chunks([], 10)) == []


def test_idle_sessions_are_packed_and_come_back() -> None:
    sessions = Sessions(hot=2)
    for name in ("a", "b", "c"):
        state = SessionState.new(name)
        state.epoch = 3
        sessions.put(name, state)
    found = sessions.get("a")
    assert found is not None
    assert (found.session_id, found.epoch) == ("a", 3)
    assert sessions.get("d") is None
    assert sorted(sessions) == ["a", "b", "c"]
    assert sessions.packed("c").epoch == 3


def test_an_overlay_that_is_dropped_changes_nothing() -> None:
    partition = Partition(1, {"t": 5}, Sessions(9))
    base = SessionState.new("s")
    partition.sessions.put("s", base)
    overlay = Overlay(partition)
    owned = overlay.own_state(base)
    owned.next_seq = 7
    overlay.offsets["t"] = 6
    assert overlay.state("s") is owned
    assert overlay.own_state(owned) is owned
    assert partition.offsets == {"t": 5}
    assert partition.sessions.get("s") is base
    assert base.next_seq == 0
    assert overlay.note_batch("s", 100)
    overlay.note_offset(40)
    overlay.merge()
    assert (partition.offsets, partition.end, partition.changed) == ({"t": 6}, 41, {"s"})
    assert partition.sessions.get("s") is owned


def test_snapshots_are_put_together_again() -> None:
    large, small = Packed(9, 2, b"x" * (2 * PART_BYTES + 5)), Packed(11, 2, b"small")
    loader = SnapshotLoader(CODEC)
    records = snapshot_records(CODEC, "s", large)
    assert len(records) == 3
    for record in records:
        loader.add(record.key, record.value)
    loader.add(marker_key(4), CODEC.encode_marker(SnapshotMarker(4, 77)))
    assert loader.marker == 77
    assert list(loader.sessions()) == [("s", large)]
    for record in snapshot_records(CODEC, "s", small):  # parts 1 and 2 of before stay behind
        loader.add(record.key, record.value)
    assert list(loader.sessions()) == [("s", small)]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_part_is_loud(missing: int) -> None:
    loader = SnapshotLoader(CODEC)
    records = snapshot_records(CODEC, "s", Packed(9, 2, b"x" * (2 * PART_BYTES + 5)))
    for record in records[:missing] + records[missing + 1 :]:
        loader.add(record.key, record.value)
    with pytest.raises(CorruptLogError):
        list(loader.sessions())
