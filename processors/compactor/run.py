"""Wiring the compactor up, from its clients to the signal that stops it."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, NoReturn

import structlog

from surfacelog.processors.compactor.bracket_watch import BracketWatch
from surfacelog.processors.compactor.interruption import end_tasks
from surfacelog.processors.compactor.one_compaction import Tools
from surfacelog.processors.compactor.outcomes import Outcomes
from surfacelog.processors.compactor.patrol import Patrol
from surfacelog.processors.compactor.request_feed import RequestFeed
from surfacelog.processors.compactor.requests import Requests
from surfacelog.processors.compactor.span_log import SpanLog
from surfacelog.processors.compactor.worker import Worker
from surfacelog.processors.health import READY
from surfacelog.processors.leave import run_and_leave
from surfacelog.processors.summarizers.configured import configured_summarizer
from surfacelog.processors.summarizers.kept import KeptSummarizer
from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.bootstrap import create_namespace
from surfacelog.projections.compaction_policy import configured_policies
from surfacelog.projections.keys import Keys
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.projections.reader import SurfaceReader
from surfacelog.projections.redis_calls import RedisCalls, connect_redis
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from surfacelog.schemas.settings import Settings

_log = structlog.get_logger()


def run_compactor(settings: Settings) -> NoReturn:
    """Carry out compaction requests until SIGTERM or Ctrl-C; end the process."""
    run_and_leave(_run(settings))


async def _run(settings: Settings) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as opened:
        worker, patrol = await _parts(settings, stopping, opened)
        READY.set(1)
        _log.info("ready", namespace=settings.namespace)
        async with asyncio.TaskGroup() as running:
            looking = running.create_task(patrol.run())
            await worker.run()
            await end_tasks(looking)
    return 0


async def _parts(
    settings: Settings, stopping: asyncio.Event, opened: AsyncExitStack
) -> tuple[Worker, Patrol]:
    policies = configured_policies(settings)
    await asyncio.to_thread(create_namespace, settings)
    summarizer = await opened.enter_async_context(configured_summarizer(settings))
    codec = await asyncio.to_thread(connect_codec, settings)
    surface = await opened.enter_async_context(await SurfaceReader.connect(settings))
    calls = RedisCalls(await connect_redis(settings.redis))
    opened.push_async_callback(calls.client.aclose)
    keys = Keys(settings.namespace)
    sender = AppendClient(settings, codec)
    await sender.start()
    opened.push_async_callback(sender.close)
    tools = Tools(
        settings=settings,
        surface=surface,
        log=SpanLog(LogReader(settings, codec, SessionIndex(settings))),
        sender=sender,
        brackets=BracketWatch(calls, keys),
        summarizer=KeptSummarizer(summarizer, calls, keys),
        policies=policies,
        stopping=stopping,
    )
    requests = Requests(tools, calls, keys, Outcomes(calls, keys))
    feed = RequestFeed(settings, codec)
    worker = Worker(feed, requests, settings.compactor_concurrency, stopping)
    return worker, Patrol(tools, calls, keys)
