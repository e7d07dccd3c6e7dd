"""The projector's process: a Faust app with two agents, and the tasks beside it (DESIGN 6)."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import structlog

from surfacelog.processors.health import READY
from surfacelog.processors.leave import run_and_leave
from surfacelog.processors.projector.applier import Applier
from surfacelog.processors.projector.asked_requests import AskedRequests
from surfacelog.processors.projector.audit import Audit
from surfacelog.processors.projector.events_agent import EventsAgent
from surfacelog.processors.projector.faust_app import add_agent, faust_app
from surfacelog.processors.projector.parked import ParkedSessions
from surfacelog.processors.projector.partitions import Partitions
from surfacelog.processors.projector.patience import PatientRedis
from surfacelog.processors.projector.positions import PositionStore
from surfacelog.processors.projector.pressure_watch import PressureWatch
from surfacelog.processors.projector.receipts_agent import ReceiptsAgent
from surfacelog.processors.projector.redis_node import heartbeat_tags, require_noeviction
from surfacelog.processors.projector.repair import Repair
from surfacelog.processors.projector.ticker import Ticker
from surfacelog.producers.bootstrap import pinned_partitions
from surfacelog.producers.compaction_client import CompactionClient
from surfacelog.projections.compaction_policy import configured_policies
from surfacelog.projections.keys import Keys
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.projections.pressure import PressureTrigger
from surfacelog.projections.redis_calls import RedisCalls, connect_redis
from surfacelog.projections.store import SurfaceStore
from surfacelog.schemas.errors import ServiceError
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import faust

    from surfacelog.processors.projector.transport import LogConsumer
    from surfacelog.projections.redis_calls import RedisClient
    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.settings import Settings

LAST_STORE_SECONDS: Final = 3.0
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 8.0

_log = structlog.get_logger()


def run_projector(settings: Settings) -> NoReturn:
    """Project the log until SIGTERM or SIGINT; end the process.

    Its status is 1 when Faust or a task of the projector failed: a supervisor starts a new
    process, which goes on from the positions in Redis. Raises SurfacelogError for what a restart
    does not mend: a Redis that evicts, a missing namespace.
    """
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    partition_count = pinned_partitions(settings)
    codec = connect_codec(settings)
    run_and_leave(_run(settings, codec, partition_count))


async def _run(settings: Settings, codec: Codec, partition_count: int) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    client = await connect_redis(settings.redis)
    try:
        await require_noeviction(client)
        projector = await _Projector.build(settings, codec, client, partition_count)
        return await projector.run(stopping)
    finally:
        await client.aclose()


class _Projector:
    """The parts, and their life: start, run until stopped or failed, drain."""

    def __init__(
        self,
        app: faust.App,
        partitions: Partitions,
        ticker: Ticker,
        workers: Sequence[Callable[[], Awaitable[None]]],
    ) -> None:
        self._app = app
        self._partitions = partitions
        self._ticker = ticker
        self._workers = workers

    @classmethod
    async def build(
        cls, settings: Settings, codec: Codec, client: RedisClient, partition_count: int
    ) -> _Projector:
        calls = RedisCalls(client)
        redis = PatientRedis(calls)
        keys = Keys(settings.namespace)
        store = SurfaceStore(calls, settings.namespace)
        reader = LogReader(settings, codec, SessionIndex(settings))
        positions = PositionStore(redis, keys, await heartbeat_tags(client))
        partitions = Partitions(settings, positions)
        applier = Applier(redis, store, reader)
        parked = ParkedSessions(redis, keys)
        pressure = PressureWatch(
            PressureTrigger(configured_policies(settings), settings.compaction_backoff_seconds),
            applier,
            redis,
            store,
            CompactionClient(settings, codec, calls),
            AskedRequests(settings, codec),
        )

        async def taken(partition: int) -> None:
            applier.forget_partition(partition)
            pressure.forget_partition(partition)
            parked.keep(set(partitions.events))
            await parked.load(partition)

        partitions.on_taken = taken
        audit = Audit(partitions, parked, applier, store, redis, partition_count)
        repair = Repair(partitions, parked, applier, store, redis, reader, pressure)
        app = faust_app(settings, partitions)
        events = EventsAgent(codec, partitions, positions, parked, applier, pressure)
        receipts = ReceiptsAgent(codec, partitions, redis, keys)
        workers = (
            add_agent(app, settings.topics.events, events),
            add_agent(app, settings.topics.receipts, receipts),
            repair.run,
        )
        return cls(
            app, partitions, Ticker(partitions, positions, parked, audit, redis, pressure), workers
        )

    async def run(self, stopping: asyncio.Event) -> int:
        """Run until stopped, or until a part ends that should not; return the exit status."""
        self._app.finalize()
        await self._start_faust()
        consumer = cast("LogConsumer", self._app.consumer)
        parts = [
            self._app.wait_until_stopped(),
            self._report_ready(stopping),
            self._ticker.run(consumer),
            *(work() for work in self._workers),
        ]
        failed = await _until_first_end([asyncio.ensure_future(part) for part in parts], stopping)
        READY.set(0)
        if not failed:
            await self._store_positions(consumer)
        await self._stop_faust()
        _log.info("stopped", failed=failed)
        return int(failed)

    async def _store_positions(self, consumer: LogConsumer) -> None:
        """Leave no replay to the next process, unless Redis is away: then it costs a short one."""
        try:
            async with asyncio.timeout(LAST_STORE_SECONDS):
                await self._ticker.store_positions(consumer)
        except TimeoutError:
            _log.warning("positions not stored: redis unavailable")

    async def _start_faust(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._app.start()
        except TimeoutError as error:
            raise ServiceError(f"Faust did not start within {START_SECONDS:g} s") from error

    async def _stop_faust(self) -> None:
        """Stop Faust, which without a broker may wait for ever: its own thread may be dead by then.

        Nothing is lost without it: the positions are in Redis.
        """
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self._app.stop()
        except TimeoutError:
            _log.warning("faust did not stop", seconds=STOP_SECONDS)

    async def _report_ready(self, stopping: asyncio.Event) -> None:
        await self._partitions.assigned.wait()
        READY.set(1)
        _log.info("ready", partitions=sorted(self._partitions.events))
        await stopping.wait()


async def _until_first_end(parts: list[asyncio.Future[Any]], stopping: asyncio.Event) -> bool:
    """Wait until told to stop or a part ends, then end all; return whether a part had failed."""
    stopped = asyncio.ensure_future(stopping.wait())
    done, _ = await asyncio.wait([stopped, *parts], return_when=asyncio.FIRST_COMPLETED)
    failed = not stopping.is_set()
    for part in done:
        error = part.exception()
        if error is not None:
            _log.error("projector failed", error=str(error), exc_info=error)
    for part in (stopped, *parts):
        part.cancel()
    await asyncio.gather(stopped, *parts, return_exceptions=True)
    return failed
