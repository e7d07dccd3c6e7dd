"""`make demo`: the main job of surfacelog on real services, proved at the end.

Exits 0 only if all went as told and every session agrees with what was sent, with a fold of its
log and with the recordings' known answers. KEEP=1 in the environment leaves stack and workers
running; Ctrl-C and SIGTERM leave nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import sys
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from rich.console import Console

from surfacelog.processors.cli.find_settings import find_settings
from surfacelog.processors.cli.output import print_error
from surfacelog.processors.demo.agents import Agents
from surfacelog.processors.demo.cast import (
    PARTITIONS,
    RECORDINGS,
    REVIEWS,
    STAR,
    find_cast,
    script,
)
from surfacelog.processors.demo.check import Checker, Verdict, read_answers
from surfacelog.processors.demo.full_sessions import FullSessions
from surfacelog.processors.demo.noting_client import NotingClient
from surfacelog.processors.demo.reviewer import PLUGIN, Reviewer
from surfacelog.processors.demo.story import Story
from surfacelog.processors.demo.watch import Watch
from surfacelog.processors.demo.workers import Workers
from surfacelog.processors.stack.checkout import DEFAULT_DIRECTORY, DEFINITION, require_checkout
from surfacelog.processors.stack.local_stack import LocalStack
from surfacelog.processors.stack.progress import Progress
from surfacelog.producers.bootstrap import create_namespace
from surfacelog.producers.compaction_client import CompactionClient
from surfacelog.producers.importer import Importer
from surfacelog.producers.recorded_log import read_recording
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.projections.reader import SurfaceReader
from surfacelog.projections.redis_calls import RedisCalls, connect_redis
from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfacelog.processors.demo.cast import Cast, Part
    from surfacelog.schemas.settings import Settings

AGENT_SECONDS: Final = 25.0
INTERRUPTED: Final = 130


def main() -> int:
    """Run the demo; return its exit status."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    console = Console()
    keep = os.environ.get("KEEP") == "1"
    checkout = require_checkout()
    stack = LocalStack(checkout / DEFAULT_DIRECTORY, checkout / DEFINITION)
    started = stack.up(None, Progress(console))
    try:
        settings = find_settings().model_copy(
            update={"namespace": f"demo-{secrets.token_hex(3)}", "partitions": PARTITIONS}
        )
        right = asyncio.run(perform(settings, find_cast(checkout / RECORDINGS), console, keep=keep))
    finally:
        if started and not keep:
            with Progress(console).step("Stopping the stack"):
                stack.down(wipe=False)
    return 0 if right else 1


async def perform(settings: Settings, cast: Cast, console: Console, *, keep: bool) -> bool:
    """Play the story on running services; return whether everything agrees."""
    begun = time.monotonic()
    await asyncio.to_thread(create_namespace, settings)
    log = require_checkout() / DEFAULT_DIRECTORY / "logs" / f"{settings.namespace}.log"
    console.print(
        f"Namespace {settings.namespace}. Workers and agents log to {log}", soft_wrap=True
    )
    agents = Agents(settings, AGENT_SECONDS, log)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(await NotingClient.connect(settings))
        reader = await stack.enter_async_context(await SurfaceReader.connect(settings))
        workers = stack.enter_context(Workers(settings, log, keep))
        calls = RedisCalls(await connect_redis(settings.redis))
        compactions = CompactionClient(settings, client.codec, calls)
        log_reader = LogReader(settings, client.codec, SessionIndex(settings))
        reviewers = find_reviewers(client, agents)
        with Watch(console, reader, agents) as watch:
            importing = partial(import_part, Importer(client))
            full = FullSessions(settings, reviewers, log_reader, watch, log)
            await Story(cast, agents, workers, watch, reader, compactions, full, importing).play()
        checker = Checker(log_reader, reader)
        verdicts = [*await check_all(checker, cast), *await check_reviews(checker, reviewers)]
    print_verdicts(console, verdicts, time.monotonic() - begun)
    if keep:
        print_next(console, settings, workers.pid)
    return not any(verdict.problems for verdict in verdicts)


async def import_part(importer: Importer, part: Part) -> int:
    """Import one recording; return its number of events."""
    return (await importer.write(read_recording(part.file.read_bytes(), part.session))).events


def find_reviewers(client: NotingClient, agents: Agents) -> tuple[Reviewer, ...]:
    """Return the agents that fill their sessions."""
    checkout = require_checkout()
    return tuple(
        Reviewer(session, checkout / folder, client, agents.progress)
        for session, folder in REVIEWS.items()
    )


async def check_all(checker: Checker, cast: Cast) -> list[Verdict]:
    """Check every session that was recorded."""
    answers = read_answers(cast.imports[0].file.parent)
    verdicts = []
    for part in (*cast.live, *cast.imports):
        sent = script(part) if part in cast.live else None
        answer = answers[part.file.name]
        # A compaction, recorded or of today, leaves the recording's answers behind.
        comparable = part.session != STAR and (sent is None or len(sent) == answer["events"])
        verdicts.append(await checker.check(part.session, sent, answer if comparable else None))
    return verdicts


async def check_reviews(checker: Checker, reviewers: tuple[Reviewer, ...]) -> list[Verdict]:
    """Check the sessions that were compacted because they were full."""
    return [
        await checker.check(
            reviewer.session,
            reviewer.client.events(reviewer.session),
            told={PLUGIN: reviewer.workspace},
        )
        for reviewer in reviewers
    ]


def print_verdicts(console: Console, verdicts: list[Verdict], seconds: float) -> None:
    """Say what the checks found."""
    wrong = [verdict for verdict in verdicts if verdict.problems]
    for verdict in wrong:
        console.print(f"WRONG {verdict.session}: {'; '.join(verdict.problems)}", soft_wrap=True)
    events = sum(verdict.events for verdict in verdicts)
    console.print(
        f"{len(verdicts) - len(wrong)} of {len(verdicts)} sessions agree with what their writers"
        f" sent, with a fold of their log and with the recordings' answers:"
        f" {events} events, each once and in order. {seconds:.0f} s.",
        soft_wrap=True,
    )


def print_next(console: Console, settings: Settings, supervisor: int) -> None:
    """Say what to try with what keeps running."""
    lines = (
        "Stack and workers keep running. Try:",
        f"  export SURFACELOG_NAMESPACE={settings.namespace} PATH=.venv/bin:$PATH",
        "  surfacelog sessions",
        f"  surfacelog surface {STAR}",
        f"  surfacelog log {STAR} --from 0 --to 20",
        f"  surfacelog compact {STAR} --dry-run",
        f"  surfacelog export {STAR} | head -3",
        *(f"  surfacelog compactions {session}" for session in REVIEWS),
        "And when you have seen enough:",
        f"  kill {supervisor}; surfacelog stack down",
    )
    console.print("\n".join(lines), highlight=False, markup=False, soft_wrap=True)


def run() -> int:
    """Run the demo; say in a sentence each what went wrong, if anything did."""
    # A SIGTERM ends the demo as Ctrl-C does: everything that was started is stopped. Scripts start
    # background jobs with SIGINT ignored, and then neither would do anything.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        return main()
    except* SurfacelogError as errors:
        for error in leaves(errors):
            print_error(error, as_json=False)
    return 1


def leaves(errors: BaseExceptionGroup[SurfacelogError]) -> Iterator[SurfacelogError]:
    """Yield the errors of a group and of the groups in it: scenes have scenes."""
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from leaves(error)
        else:
            yield error


if __name__ == "__main__":
    try:
        sys.exit(run())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
