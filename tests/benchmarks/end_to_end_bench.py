"""How long an append takes until readers see it, and what reading a Surface costs.

    python -m tests.benchmarks.end_to_end_bench [APPENDS]

Sequencer, projector and one agent on this machine, nothing else to do: the agent appends one
user message and waits until it is visible, again and again. One number says how much of it is
Kafka's: a raw produce with acks=all to the same broker, in the same run.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from confluent_kafka import Producer

from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.bootstrap import create_namespace
from surfacelog.producers.session_writer import SessionWriter
from surfacelog.projections.reader import SurfaceReader
from surfacelog.schemas.json_text import dumps
from surfacelog.schemas.settings import Settings
from tests.processes import environment_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfacelog.schemas.json_value import JsonObject

SESSION: Final = "latency"
TEXT: Final = "An append-only sequence of facts. " * 6


@contextmanager
def workers(settings: Settings) -> Iterator[None]:
    """Run sequencer, projector and compactor under their supervisor."""
    command = [sys.executable, "-m", "surfacelog.processors.cli.main", "run", "all"]
    with subprocess.Popen(
        command, env=os.environ | environment_of(settings), stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield
        finally:
            process.terminate()


async def latencies(writer: SessionWriter, count: int) -> list[float]:
    """Return the seconds from append to visible, one after the other."""
    found = []
    for number in range(count):
        message: JsonObject = {
            "id": f"m{number}",
            "role": "user",
            "content": [{"type": "text", "text": TEXT}],
            "source": {"kind": "user"},
        }
        started = time.perf_counter()
        await writer.append({"type": "user/message", "data": message})
        await writer.flush("visible", timeout=60)
        found.append(time.perf_counter() - started)
    return found


def raw_produces(settings: Settings, count: int) -> list[float]:
    """Return the seconds from a raw produce of the same text to its acknowledgement."""
    producer = Producer({"bootstrap.servers": settings.kafka, "acks": "all"})
    found = []
    for _ in range(count):
        started = time.perf_counter()
        producer.produce(settings.topics.compactions, TEXT.encode(), partition=0)
        producer.flush(30)
        found.append(time.perf_counter() - started)
    return found


async def measure(settings: Settings, count: int) -> None:
    """Print the figures."""
    client = await AppendClient.connect(settings)
    async with (
        client,
        SessionWriter.open(settings, SESSION, client=client, timeout=120) as writer,
        await SurfaceReader.connect(settings) as reader,
    ):
        await latencies(writer, 20)  # connections and caches
        _print("append to visible", await latencies(writer, count))
        reads = []
        for _ in range(count):
            started = time.perf_counter()
            cut = await reader.read(SESSION)
            reads.append(time.perf_counter() - started)
        size = sum(len(dumps(message)) for message in cut.messages)
        what = f"Surface read, {len(cut.nodes)} nodes, {size} bytes, log of {cut.as_of_seq + 1}"
        _print(what, reads)


def _print(what: str, seconds: list[float]) -> None:
    p50, p99 = statistics.median(seconds), sorted(seconds)[int(len(seconds) * 0.99)]
    print(f"{what}: p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms", flush=True)


def main() -> None:
    """Make a namespace, run the workers and measure."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    settings = Settings(namespace=f"bench-{secrets.token_hex(4)}", partitions=4)
    create_namespace(settings)
    with workers(settings):
        asyncio.run(measure(settings, count))
    _print("raw produce, acks=all", raw_produces(settings, count))


if __name__ == "__main__":
    main()
