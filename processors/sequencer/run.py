"""Putting a sequencer together and running it until it is told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from surfacelog.processors.sequencer.batches import Batches
from surfacelog.processors.sequencer.clients import group_consumer, transactional_producer
from surfacelog.processors.sequencer.collector import calm_collector
from surfacelog.processors.sequencer.errors import FatalError
from surfacelog.processors.sequencer.group import Group
from surfacelog.processors.sequencer.intake import Intake
from surfacelog.processors.sequencer.lag import LagMeter
from surfacelog.processors.sequencer.restore import Restore
from surfacelog.processors.sequencer.sequencer import Sequencer
from surfacelog.processors.sequencer.snapshot_rounds import SnapshotRounds
from surfacelog.processors.sequencer.transactions import Transactions
from surfacelog.processors.sequencer.tuning import Tuning
from surfacelog.producers.bootstrap import create_namespace, max_record_bytes
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    import threading

    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.settings import Settings

_log = structlog.get_logger()


def run_sequencer(settings: Settings, stop: threading.Event, tuning: Tuning | None = None) -> int:
    """Sequence the namespace together with its other sequencers until `stop` is set.

    Makes the topics that are missing and registers the schemas. Logs `ready` whenever
    partitions were taken over. Returns the exit status: 0 after a clean stop, 1 when this
    process can write no more and a new one must be started. Raises SurfacelogError for
    what no restart mends, such as topics that do not fit the settings.
    """
    tuning = tuning or Tuning()
    pinned = create_namespace(settings)
    codec = connect_codec(settings)
    transactions = Transactions(transactional_producer(settings, tuning), stop)
    sequencer = make_sequencer(settings, tuning, codec, transactions, pinned, stop)
    calm_collector()
    try:
        sequencer.run()
    except FatalError as error:
        _log.error("sequencer ends", code=error.code, reason=error.message)
        return 1
    _log.info("stopped")
    return 0


def make_sequencer(
    settings: Settings,
    tuning: Tuning,
    codec: Codec,
    transactions: Transactions,
    pinned: int,
    stop: threading.Event,
) -> Sequencer:
    """Return a sequencer of an existing namespace with `pinned` partitions."""
    topics = settings.topics
    consumer = group_consumer(settings, tuning)
    rounds = SnapshotRounds(codec, transactions, topics.sessions, tuning)
    intake = Intake(
        codec,
        topics,
        pinned,
        largest_append=settings.max_append_bytes,
        largest_record=max_record_bytes(settings),
    )
    return Sequencer(
        settings,
        tuning,
        Group(consumer, topics),
        Restore(settings, codec, consumer, tuning.hot_sessions),
        Batches(topics, consumer, transactions, intake, rounds),
        LagMeter(consumer),
        pinned,
        stop,
    )
