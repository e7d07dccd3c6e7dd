from __future__ import annotations

from surfacelog.processors.compactor.offsets import OffsetTracker


def test_a_position_moves_only_over_finished_requests() -> None:
    tracker = OffsetTracker()
    for offset in (5, 6, 9):
        tracker.begin(0, offset)

    tracker.done(0, 6)
    assert tracker.take_committable() == {}
    tracker.done(0, 5)
    assert tracker.take_committable() == {0: 7}
    assert tracker.take_committable() == {}
    tracker.done(0, 9)
    assert tracker.take_committable() == {0: 10}


def test_a_partition_that_was_given_up_is_never_committed() -> None:
    tracker = OffsetTracker()
    tracker.begin(0, 1)
    tracker.begin(1, 1)
    tracker.done(0, 1)

    tracker.forget(0)
    tracker.done(0, 1)
    tracker.done(1, 1)

    assert tracker.take_committable() == {1: 2}
