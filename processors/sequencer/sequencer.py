"""The sequencer's loop: fetch requests, admit, produce, commit; and what a rebalance does to it.

No transaction is ever open while the group is polled, and rebalance callbacks run nowhere else.
So no transaction spans a rebalance, and a membership taken when a transaction begins is that
under which its requests were read.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import TopicPartition

from surfacelog.processors.health import READY
from surfacelog.processors.sequencer import metrics
from surfacelog.processors.sequencer.assignment import owned_numbers
from surfacelog.processors.sequencer.chunks import in_chunks
from surfacelog.processors.sequencer.errors import (
    AssignmentError,
    InterruptedRestoreError,
    TransactionAbortError,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from surfacelog.processors.sequencer.batches import Batches
    from surfacelog.processors.sequencer.group import Group
    from surfacelog.processors.sequencer.lag import LagMeter
    from surfacelog.processors.sequencer.partition import Partition
    from surfacelog.processors.sequencer.record import Record
    from surfacelog.processors.sequencer.restore import Restore
    from surfacelog.processors.sequencer.tuning import Tuning
    from surfacelog.schemas.settings import Settings

ABORT_PAUSE: Final = 0.05
"""Seconds before the requests of an aborted transaction are read again."""

_log = structlog.get_logger()


class Sequencer:
    """One member of the group of sequencers.

    `partitions` are those that it owns and has restored; their state is never kept across a
    rebalance, because being asked to give them up proves nothing about who wrote since.
    """

    def __init__(
        self,
        settings: Settings,
        tuning: Tuning,
        group: Group,
        restore: Restore,
        batches: Batches,
        lag: LagMeter,
        pinned: int,
        stop: threading.Event,
    ) -> None:
        self.partitions: dict[int, Partition] = {}
        self._settings = settings
        self._tuning = tuning
        self.group = group
        self._restore = restore
        self._batches = batches
        self._lag = lag
        self._pinned = pinned
        self._stop = stop
        self._seen_changes = 0

    def run(self) -> None:
        """Work until the stop event is set, then hand over and leave the group.

        Raises FatalError when this process can write no more, CorruptLogError when the log
        cannot be replayed.
        """
        self.start()
        try:
            while not self._stop.is_set():
                self.turn()
            self._give_up()
        finally:
            self.end()

    def start(self) -> None:
        """End what an earlier process of the same name left open, and join the group."""
        self._batches.start()
        self.group.join(self._give_up, self._drop)

    def end(self) -> None:
        """Leave the group, without snapshots of what was not handed over."""
        self._drop()
        self.group.leave()

    def turn(self) -> None:
        """Do the next thing: take partitions over, or commit what waits."""
        if self._seen_changes != self.group.changes:
            self._take_over()
        waiting = self._batches.has_round(self.partitions)
        records = self.group.fetch(
            self._tuning.batch_appends, 0 if waiting else self._tuning.poll_seconds
        )
        for chunk in in_chunks(records, self._tuning.batch_bytes):
            if not self._commit(chunk):
                return
        if not records and self._batches.has_round(self.partitions):
            self._commit(())
        self._lag.update(self.partitions.values())

    def _commit(self, records: Sequence[Record]) -> bool:
        """Commit a batch; False when it was aborted and will be read again."""
        try:
            self._batches.commit(records, self.partitions)
        except TransactionAbortError as error:
            _log.warning("transaction aborted", reason=error.message, appends=len(records))
            # Also when we are no member any more: the next fetch calls back and drops everything.
            self._read_on()
            self._stop.wait(ABORT_PAUSE)
            return False
        return True

    def _take_over(self) -> None:
        """Restore what the group gave us, if that can be worked on."""
        self._seen_changes = self.group.changes
        if self.group.assigned is None:
            return
        started = time.monotonic()
        try:
            numbers = owned_numbers(self.group.assigned, self._settings.topics, self._pinned)
            self.partitions = self._restore.partitions(numbers, self._pulse)
        except AssignmentError as error:
            _log.error("assignment refused: waiting for another one", reason=error.message)
            return
        except InterruptedRestoreError:
            return
        self._read_on()
        seconds = time.monotonic() - started
        metrics.RESTORE_SECONDS.observe(seconds)
        metrics.PARTITIONS.set(len(numbers))
        READY.set(1)
        _log.info("ready", partitions=sorted(numbers), seconds=round(seconds, 3))

    def _pulse(self) -> None:
        self.group.pulse()
        if self._stop.is_set() or self._seen_changes != self.group.changes:
            raise InterruptedRestoreError("the partitions changed, or it is time to stop")

    def _read_on(self) -> None:
        """Fetch from where the last committed transaction stopped."""
        self.group.read_from(
            [
                TopicPartition(topic, partition.number, offset)
                for partition in self.partitions.values()
                for topic, offset in partition.offsets.items()
            ]
        )

    def _give_up(self) -> None:
        """Spare the successor the replay, if the partitions are still ours; then forget them."""
        try:
            self._batches.hand_over(self.partitions, self._tuning.hand_over_seconds)
        except TransactionAbortError as error:
            _log.warning("no snapshots at hand-over", reason=error.message)
        self._drop()

    def _drop(self) -> None:
        self.partitions = {}
        READY.set(0)
        metrics.PARTITIONS.set(0)
        metrics.LAG.clear()
