"""The Kafka clients of the sequencer, each with the settings that its promises need."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, Producer

from surfacelog.producers.bootstrap import max_record_bytes

if TYPE_CHECKING:
    from surfacelog.processors.sequencer.tuning import Tuning
    from surfacelog.schemas.settings import Settings


def group_name(settings: Settings) -> str:
    """Return the consumer group of a namespace's sequencers."""
    return f"{settings.namespace}.sequencer"


def group_consumer(settings: Settings, tuning: Tuning) -> Consumer:
    """Return the consumer of the request topics; it assigns and commits nothing by itself.

    Range, because it gives equal numbers of all topics to one member. Read_committed, because
    only then does the group coordinator make us wait for a predecessor's pending offsets.
    """
    return Consumer(
        _consuming(settings)
        | {
            "group.id": group_name(settings),
            "partition.assignment.strategy": "range",
            "session.timeout.ms": tuning.session_timeout,
            "heartbeat.interval.ms": min(3_000, tuning.session_timeout // 3),
            "max.poll.interval.ms": tuning.max_poll_interval,
            "auto.offset.reset": "earliest",
        }
    )


def log_consumer(settings: Settings) -> Consumer:
    """Return a consumer for reading snapshots and events back; it joins no group."""
    return Consumer(
        _consuming(settings)
        | {"group.id": f"{group_name(settings)}.restore", "auto.offset.reset": "earliest"}
    )


def _consuming(settings: Settings) -> dict[str, Any]:
    largest = max_record_bytes(settings)
    return {
        "bootstrap.servers": settings.kafka,
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        # The first record of a fetch may be larger, but not the response as a whole.
        "fetch.message.max.bytes": largest,
        "receive.message.max.bytes": max(100_000_000, 2 * largest),
    }


def transactional_producer(settings: Settings, tuning: Tuning) -> Producer:
    """Return the producer of a process.

    A restarted process that keeps its `instance` ends the old one's transaction at once; without
    one, the broker does it after the transaction's timeout.
    """
    instance = settings.instance or secrets.token_hex(8)
    timeout = tuning.kept_transaction_timeout if settings.instance else tuning.transaction_timeout
    return Producer(
        {
            "bootstrap.servers": settings.kafka,
            "transactional.id": f"{settings.namespace}.sequencer.{instance}",
            "transaction.timeout.ms": timeout,
            # Back-to-back transactions meet CONCURRENT_TRANSACTIONS while the markers of the last
            # one are written; the default of 100 ms would cost seven eighths of the throughput.
            "retry.backoff.ms": 2,
            "retry.backoff.max.ms": 20,
            "message.max.bytes": max_record_bytes(settings),
            "compression.type": "lz4",
            "linger.ms": 2,
        }
    )
