"""When snapshot rounds begin, and how they are spread over transactions (see `snapshots`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.processors.sequencer.snapshots import Round, marker_key, snapshot_records
from surfacelog.schemas.failpoints import failpoint
from surfacelog.schemas.records import SnapshotMarker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.processors.sequencer.partition import Overlay, Partition
    from surfacelog.processors.sequencer.transactions import Transactions
    from surfacelog.processors.sequencer.tuning import Tuning
    from surfacelog.schemas.codec import Codec


class SnapshotRounds:
    """Adds snapshots to transactions: those of one partition each, and not too many."""

    def __init__(
        self, codec: Codec, transactions: Transactions, topic: str, tuning: Tuning
    ) -> None:
        self._codec = codec
        self._transactions = transactions
        self._topic = topic
        self._tuning = tuning

    def next_partition(self, partitions: Iterable[Partition]) -> Partition | None:
        """Return the partition whose round goes on or is due, if any."""
        due = [p for p in partitions if p.round is not None or self._is_due(p)]
        # One round is ended before the next begins; then the longest tail comes first.
        return max(due, key=lambda p: (p.round is not None, p.tail_appends), default=None)

    def add(self, overlay: Overlay) -> None:
        """Write the next snapshots of the partition's round, and the marker after the last one.

        The states are those before the open transaction: they hold all that the marker promises.
        """
        partition = overlay.partition
        current = partition.round or partition.begin_round()
        left = list(current.pending)
        budget = self._tuning.round_bytes
        while left and budget > 0:
            budget -= self._write_snapshot(partition, left.pop())
        if not left:
            self._write_marker(partition, current)
        overlay.round_left = left

    def _is_due(self, partition: Partition) -> bool:
        return (
            partition.tail_appends >= self._tuning.tail_appends
            or partition.tail_bytes >= self._tuning.tail_bytes
        )

    def _write_snapshot(self, partition: Partition, session_id: str) -> int:
        packed = partition.sessions.packed(session_id)
        for record in snapshot_records(self._codec, session_id, packed):
            self._transactions.produce(self._topic, partition.number, record.key, record.value)
        failpoint("during_snapshot")
        return len(packed.state)

    def _write_marker(self, partition: Partition, current: Round) -> None:
        failpoint("before_marker")
        marker = self._codec.encode_marker(SnapshotMarker(partition.number, current.offset))
        self._transactions.produce(
            self._topic, partition.number, marker_key(partition.number), marker
        )
