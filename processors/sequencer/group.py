"""Membership in the group of sequencers: fetching requests, and telling of every rebalance."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import structlog

from surfacelog.processors.sequencer.errors import FatalError
from surfacelog.schemas.bounded_call import close_in_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer, KafkaError, TopicPartition

    from surfacelog.processors.sequencer.record import Record
    from surfacelog.schemas.topics import Topics

_log = structlog.get_logger()


class Group:
    """The consumer of the request topics. Callbacks run inside `fetch`, `pulse` and `leave` only.

    `assigned` is what the group gave us last, None while it gave us nothing; `changes` counts
    rebalances. Nothing is read until `read_from` says where: the offsets at which librdkafka
    would begin by itself were fetched too early (see `restore`).
    """

    def __init__(self, consumer: Consumer, topics: Topics) -> None:
        self.consumer = consumer
        self.assigned: list[TopicPartition] | None = None
        self.changes = 0
        self._topics = topics

    def join(self, give_up: Callable[[], None], drop: Callable[[], None]) -> None:
        """Subscribe. `give_up` is called while the partitions may still be ours, `drop` after.

        The first is no promise: librdkafka calls it also when the membership has long ended.
        """

        def on_assign(_consumer: Consumer, partitions: list[TopicPartition]) -> None:
            self.consumer.assign([])
            self._change(partitions)

        def on_revoke(_consumer: Consumer, _partitions: list[TopicPartition]) -> None:
            give_up()
            self._change(None)

        def on_lost(_consumer: Consumer, _partitions: list[TopicPartition]) -> None:
            drop()
            self._change(None)

        self.consumer.subscribe(
            list(self._topics.requests), on_assign=on_assign, on_revoke=on_revoke, on_lost=on_lost
        )

    def fetch(self, limit: int, seconds: float) -> list[Record]:
        """Return the requests that wait, at most `limit`; wait up to `seconds` for the first."""
        changes = self.changes
        first = self.consumer.poll(seconds)
        if first is None:
            return []
        messages = [first, *self.consumer.consume(limit - 1, 0)]
        if changes != self.changes:
            # Read under an assignment that has ended; whoever owns them now reads them again.
            return []
        sound = [message for message in messages if _is_sound(message.error())]
        return cast("list[Record]", sound)

    def pulse(self) -> None:
        """Serve callbacks without fetching anything."""
        self.consumer.poll(0)

    def read_from(self, places: list[TopicPartition]) -> None:
        """Fetch from these offsets, and forget what was fetched already."""
        self.consumer.assign(places)

    def leave(self) -> None:
        """Leave the group at once, so that nobody waits for our session to time out.

        While Kafka is away others have to wait all the same.
        """
        close_in_time("the group's consumer", self.consumer.close)

    def _change(self, assigned: list[TopicPartition] | None) -> None:
        self.assigned = assigned
        self.changes += 1


def _is_sound(reason: KafkaError | None) -> bool:
    """Log a consumer error, which librdkafka gets over by itself; FatalError when it cannot."""
    if reason is None:
        return True
    if reason.fatal():
        raise FatalError(f"the consumer of requests failed: {reason}")
    _log.warning("reading requests", error=str(reason))
    return False
