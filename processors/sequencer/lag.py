"""How many requests wait, told to Prometheus about once a second."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from confluent_kafka import TopicPartition

from surfacelog.processors.sequencer.metrics import LAG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Consumer

    from surfacelog.processors.sequencer.partition import Partition

INTERVAL_SECONDS: Final = 1.0


class LagMeter:
    """Compares the ends of topics, as the last fetch told them, with what is committed."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._next = 0.0

    def update(self, partitions: Iterable[Partition]) -> None:
        """Update the gauges, unless that was done just now."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + INTERVAL_SECONDS
        for partition in partitions:
            for topic, offset in partition.offsets.items():
                place = TopicPartition(topic, partition.number)
                _, end = self._consumer.get_watermark_offsets(place, cached=True)
                if end >= 0:
                    LAG.labels(topic, partition.number).set(max(0, end - offset))
