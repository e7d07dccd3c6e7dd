"""One transaction for one batch of requests: admit, produce, send offsets, commit, merge."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Final

import structlog

from surfacelog.processors.sequencer import metrics
from surfacelog.processors.sequencer.errors import PoisonedRecordError, TransactionAbortError
from surfacelog.processors.sequencer.fencing import membership
from surfacelog.processors.sequencer.partition import Overlay
from surfacelog.schemas.clock import now_ms
from surfacelog.schemas.failpoints import failpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from confluent_kafka import Consumer

    from surfacelog.processors.sequencer.intake import Answer, Intake, Intention
    from surfacelog.processors.sequencer.partition import Partition
    from surfacelog.processors.sequencer.record import Record
    from surfacelog.processors.sequencer.snapshot_rounds import SnapshotRounds
    from surfacelog.processors.sequencer.transactions import Transactions
    from surfacelog.schemas.topics import Topics

PRODUCED_TOGETHER: Final = 100
"""Records are produced in groups: each pause between two wakes the client's threads again."""

_log = structlog.get_logger()


class Batches:
    """Commits batches of requests to the partitions that they came from."""

    def __init__(
        self,
        topics: Topics,
        consumer: Consumer,
        transactions: Transactions,
        intake: Intake,
        rounds: SnapshotRounds,
    ) -> None:
        self._written = (topics.events, topics.receipts)
        self._consumer = consumer
        self._transactions = transactions
        self._intake = intake
        self._rounds = rounds
        self._poisoned: set[tuple[str, int, int]] = set()

    def start(self) -> None:
        """End what an earlier process of the same name left open."""
        self._transactions.start()

    def has_round(self, partitions: Mapping[int, Partition]) -> bool:
        """Tell whether there are snapshots to write, with or without requests."""
        return self._rounds.next_partition(partitions.values()) is not None

    def commit(self, records: Sequence[Record], partitions: Mapping[int, Partition]) -> None:
        """Admit the records and commit the answers, with the next snapshots of a due round.

        Raises TransactionAbortError after aborting the transaction: nothing has changed, and the
        records must be read again. Raises FatalError when this process can write no more.
        """
        intentions = [self._intake.read(record) for record in records]
        started = time.monotonic()
        self._transactions.begin()
        try:
            outcomes = self._fill(records, intentions, partitions)
        except PoisonedRecordError as error:
            _log.error("a record cannot be admitted", place=error.place, exc_info=error)
            self._poisoned.add(error.place)
            self._abort()
            raise TransactionAbortError("a record must be refused unseen") from error
        except TransactionAbortError:
            self._abort()
            raise
        self._poisoned.difference_update(map(_place, records))
        _tell(outcomes, len(records), time.monotonic() - started)

    def hand_over(self, partitions: Mapping[int, Partition], seconds: float) -> None:
        """Write the snapshots that spare a successor the replay, as far as time permits."""
        deadline = time.monotonic() + seconds
        for partition in partitions.values():
            if partition.tail_appends or partition.round is not None:
                partition.begin_round()
        while self.has_round(partitions) and time.monotonic() < deadline:
            self.commit((), partitions)

    def _fill(
        self,
        records: Sequence[Record],
        intentions: Sequence[Intention],
        partitions: Mapping[int, Partition],
    ) -> Counter[str]:
        member = membership(self._consumer)
        overlays: dict[int, Overlay] = {}
        outcomes = self._admit(records, intentions, partitions, overlays)
        failpoint("after_produce")
        due = self._rounds.next_partition(partitions.values())
        if due is not None:
            self._rounds.add(overlays.setdefault(due.number, Overlay(due)))
        # An explicit offset for every partition that is written, also for snapshots alone.
        offsets = {
            (topic, number): offset
            for number, overlay in overlays.items()
            for topic, offset in overlay.offsets.items()
        }
        self._transactions.commit(offsets, member)
        for overlay in overlays.values():
            overlay.merge()
            metrics.MARKERS.inc(overlay.round_left == [])
        return outcomes

    def _admit(
        self,
        records: Sequence[Record],
        intentions: Sequence[Intention],
        partitions: Mapping[int, Partition],
        overlays: dict[int, Overlay],
    ) -> Counter[str]:
        now = now_ms()
        outcomes: Counter[str] = Counter()
        answers: list[tuple[Answer, Overlay]] = []
        for record, intention in zip(records, intentions, strict=True):
            number = record.partition()
            overlay = overlays.get(number)
            if overlay is None:
                overlay = overlays[number] = Overlay(partitions[number])
            overlay.offsets[record.topic()] = record.offset() + 1
            answer = self._answer(intention, record, overlay, now)
            if answer is not None:
                answers.append((answer, overlay))
                outcomes[answer.outcome] += 1
                if len(answers) >= PRODUCED_TOGETHER:
                    self._produce(answers)
        self._produce(answers)
        return outcomes

    def _answer(
        self, intention: Intention, record: Record, overlay: Overlay, now: int
    ) -> Answer | None:
        if self._poisoned and _place(record) in self._poisoned:
            return self._intake.refuse_poisoned(record)
        try:
            return self._intake.answer(intention, record, overlay, now)
        except Exception as defect:
            # Whatever it is, it is about this record: the others must not wait for a new release.
            raise PoisonedRecordError(*_place(record), defect) from defect

    def _produce(self, answers: list[tuple[Answer, Overlay]]) -> None:
        produce, events, receipts = self._transactions.produce, *self._written
        for answer, overlay in answers:
            number, batch = overlay.partition.number, answer.batch
            if batch is not None:
                first = overlay.note_batch(answer.session_id, len(batch))
                told = overlay.note_offset if first else None
                produce(events, number, answer.key, batch, told)
            produce(receipts, number, answer.key, answer.receipt)
        answers.clear()

    def _abort(self) -> None:
        metrics.ABORTED.inc()
        self._transactions.abort()


def _place(record: Record) -> tuple[str, int, int]:
    return record.topic(), record.partition(), record.offset()


def _tell(outcomes: Counter[str], records: int, seconds: float) -> None:
    metrics.TRANSACTION_SECONDS.observe(seconds)
    metrics.TRANSACTION_APPENDS.observe(records)
    for outcome, count in outcomes.items():
        metrics.ANSWERED.labels(outcome).inc(count)
