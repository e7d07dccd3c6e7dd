"""The Faust app of the projector: what Faust is told, and how thin its agents are (DESIGN 6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import faust

from surfacelog.processors.projector.transport import Transport
from surfacelog.producers.bootstrap import max_record_bytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from surfacelog.processors.projector.transport import Applied, LinkedMessage, LogConsumer
    from surfacelog.schemas.settings import Settings

BATCH: Final = 500
WITHIN_SECONDS: Final = 0.005
BUFFERED_RECORDS: Final = 2_000
BUFFERED_BATCHES: Final = 32
LOADED: Final = 16
GATHER_SECONDS: Final = 0.02
"""So many records in one window mean load: then larger batches are worth the wait."""
SESSION_SECONDS: Final = 6.0
"""How long a killed projector keeps its partitions: the least that brokers allow by default."""


class Agent(Protocol):
    """What handles the records of one topic."""

    async def take(self, consumer: LogConsumer, messages: Sequence[LinkedMessage], /) -> None:
        """Apply messages; they are taken again if this raises."""


class _App(faust.App):
    """Faust without its directories: the projector has no tables, so nothing is to be left."""

    def _create_directories(self) -> None:
        pass


def faust_app(settings: Settings, applied: Applied) -> faust.App:
    """Return a Faust app whose offsets are what `applied` says."""
    app = _App(
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


def add_agent(app: faust.App, topic: str, agent: Agent) -> Callable[[], Awaitable[None]]:
    """Let an agent take the raw records of a topic, in batches, one batch at a time.

    Returns the task to run beside the app. Faust collects records only while nobody works on
    the last ones, so its own agent just hands them over: under load the next batch is as large
    as what came meanwhile, and an idle topic waits for nothing.
    """
    handed_over: asyncio.Queue[list[LinkedMessage]] = asyncio.Queue(BUFFERED_BATCHES)
    closed = asyncio.Event()
    source = app.topic(
        topic, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw"
    )

    async def hand_over(stream: Any) -> None:  # a faust.Stream, whose interface lacks the method
        async for events in stream.take_events(BATCH, within=WITHIN_SECONDS):
            if not closed.is_set():
                await handed_over.put([cast("LinkedMessage", event.message) for event in events])

    async def work() -> None:
        try:
            while True:
                messages = await handed_over.get()
                if len(messages) >= LOADED:
                    await asyncio.sleep(GATHER_SECONDS)
                while len(messages) < BATCH and not handed_over.empty():
                    messages += handed_over.get_nowait()
                await agent.take(cast("LogConsumer", app.consumer), messages)
        finally:
            # Faust waits for its agents when it stops: none may be left waiting for room here.
            closed.set()
            while not handed_over.empty():
                handed_over.get_nowait()

    app.agent(source, name=topic, concurrency=1)(hand_over)
    return work
