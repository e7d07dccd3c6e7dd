"""The Faust app of the projector: what Faust is told, and how thin its agents are (DESIGN 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import faust

from surfacelog.processors.projector.transport import Transport
from surfacelog.producers.bootstrap import max_record_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.processors.projector.transport import Applied, LinkedMessage, LogConsumer
    from surfacelog.schemas.settings import Settings

BATCH: Final = 500
WITHIN_SECONDS: Final = 0.005
BUFFERED_RECORDS: Final = 2_000
SESSION_SECONDS: Final = 6.0
"""How long a killed projector keeps its partitions: the least that brokers allow by default."""


class Agent(Protocol):
    """What handles the records of one topic."""

    async def take(self, consumer: LogConsumer, messages: Sequence[LinkedMessage]) -> None:
        """Apply messages; they are taken again if this raises."""


def faust_app(settings: Settings, applied: Applied) -> faust.App:
    """Return a Faust app whose offsets are what `applied` says."""
    app = faust.App(
        f"{settings.namespace}.projector",
        broker=f"kafka://{settings.kafka.replace(',', ';')}",
        store="memory://",
        topic_disable_leader=True,
        topic_allow_declare=False,
        web_enabled=False,
        broker_max_poll_records=BUFFERED_RECORDS,
        stream_buffer_maxsize=BUFFERED_RECORDS,
        stream_wait_empty=False,
        broker_session_timeout=SESSION_SECONDS,
        broker_heartbeat_interval=SESSION_SECONDS / 3,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=max_record_bytes(settings),
    )
    app.transport = Transport(app, applied)
    return app


def add_agent(app: faust.App, topic: str, agent: Agent) -> None:
    """Let an agent take the raw records of a topic, in batches, one batch at a time."""
    source = app.topic(
        topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
    )

    async def take(stream: faust.StreamT[Any]) -> None:
        consumer = cast("LogConsumer", app.consumer)
        async for events in stream.take_events(BATCH, within=WITHIN_SECONDS):
            await agent.take(consumer, [cast("LinkedMessage", event.message) for event in events])

    app.agent(source, name=topic, concurrency=1)(take)
