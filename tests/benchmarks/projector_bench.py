"""Measures the projector: records a second while it catches up, and append -> visible when idle.

Run it against running services (`eval "$(surfacelog stack env)"`):
`python -m tests.benchmarks.projector_bench [--records N] [--sessions N] [--appends N]`.
It makes a namespace of its own, and removes its topics and keys at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from statistics import quantiles
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient
from redis import Redis

from surfacelog.producers.bootstrap import create_namespace
from surfacelog.projections.reader import SurfaceReader
from surfacelog.schemas.registry import connect_codec
from surfacelog.schemas.settings import Settings
from tests.live_session import run, step_start, turn_start, user
from tests.log_feed import LogFeed

if TYPE_CHECKING:
    from surfacelog.schemas.records import Item

CHUNKS = 30
TRANSACTION = 200


def write_backlog(feed: LogFeed, records: int, sessions: int) -> None:
    """Write appends of which nine in ten are a chunk run and one is a message of 1 kB."""
    names = [f"bench-{number}" for number in range(sessions)]
    opening = (turn_start(), step_start())
    feed.append_all([(name, opening) for name in names])
    stream: tuple[Item, ...] = (run(*["token "] * CHUNKS),)
    message: tuple[Item, ...] = (user("x" * 1000),)
    for first in range(0, records, TRANSACTION):
        feed.append_all(
            [
                (names[n % sessions], message if n // sessions % 10 == 0 else stream)
                for n in range(first, min(first + TRANSACTION, records))
            ]
        )


async def catch_up(reader: SurfaceReader, feed: LogFeed) -> float:
    """Return the seconds until every session is visible to its end."""
    began = time.perf_counter()
    for session_id in feed.written:
        await reader.wait_visible(session_id, feed.next_seq(session_id) - 1, 300)
    return time.perf_counter() - began


async def latencies(reader: SurfaceReader, feed: LogFeed, appends: int) -> list[float]:
    """Return the ms from an append's commit to its visibility, one append at a time."""
    seen = []
    for _ in range(appends):
        last = await asyncio.to_thread(feed.append, "idle", (user("x" * 1000),))
        began = time.perf_counter()
        await reader.wait_visible("idle", last, 10)
        seen.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.02)
    return seen


async def reads(reader: SurfaceReader, session_id: str, count: int) -> list[float]:
    """Return the ms of whole Surface reads."""
    seen = []
    for _ in range(count):
        began = time.perf_counter()
        await reader.read(session_id)
        seen.append((time.perf_counter() - began) * 1000)
    return seen


async def observe(
    settings: Settings, feed: LogFeed, arguments: argparse.Namespace
) -> dict[str, object]:
    """Measure beside a projector that has just become ready."""
    async with await SurfaceReader.connect(settings) as reader:
        seconds = await catch_up(reader, feed)
        visible = quantiles(await latencies(reader, feed, arguments.appends), n=100)
        read = quantiles(await reads(reader, "bench-0", 200), n=100)
        cut = await reader.read("bench-0")
    return {
        "records": arguments.records,
        "records_per_second": round(arguments.records / seconds),
        "visible_p50_ms": round(visible[49], 1),
        "visible_p99_ms": round(visible[98], 1),
        "read_p50_ms": round(read[49], 2),
        "read_nodes": len(cut.nodes),
        "read_log_events": cut.as_of_seq + 1,
    }


def measure(settings: Settings, arguments: argparse.Namespace) -> dict[str, object]:
    """Fill the log, start a projector on it and observe."""
    feed = LogFeed(settings, connect_codec(settings))
    write_backlog(feed, arguments.records, arguments.sessions)
    command = [sys.executable, "-m", "surfacelog.processors.cli.main", "run", "projector"]
    environment = os.environ | {"SURFACELOG_NAMESPACE": settings.namespace}
    projector = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert projector.stderr is not None
        while '"ready"' not in (line := projector.stderr.readline()):
            assert line, "the projector ended"
        return asyncio.run(observe(settings, feed, arguments))
    finally:
        projector.send_signal(signal.SIGTERM)
        projector.wait(20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--appends", type=int, default=200)
    arguments = parser.parse_args()
    settings = Settings(namespace=f"bench{secrets.token_hex(4)}", partitions=4)
    create_namespace(settings)
    try:
        print(json.dumps(measure(settings, arguments)))
    finally:
        AdminClient({"bootstrap.servers": settings.kafka}).delete_topics(list(settings.topics.all))
        with Redis.from_url(settings.redis) as redis:
            for key in redis.scan_iter(f"{settings.namespace}:*", count=1000):
                redis.delete(key)


if __name__ == "__main__":
    main()
