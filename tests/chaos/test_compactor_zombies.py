"""Compactors that sleep longer than their lock lives: all that comes of them is a refusal."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.chat_server import ChatServer, held, says_text
from tests.integration.compaction_stack import (
    asking,
    connect,
    data_of,
    end_classes,
    line,
    start_services,
    write_long_session,
)
from tests.sequencing import wait_until

from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from tests.integration.compaction_stack import Stack
    from tests.processes import Spawned, Spawner

    from surfacelog.schemas.records import CompactionRequest
    from surfacelog.schemas.settings import Settings

pytestmark = [pytest.mark.services, pytest.mark.chaos]

LOCK = {"SURFACELOG_COMPACTOR_LOCK_SECONDS": "2"}
STOP_BEFORE_PUBLISHING = {
    "SURFACELOG_FAILPOINT": "compactor-publishing",
    "SURFACELOG_FAILPOINT_SIGNAL": "STOP",
}


async def test_a_worker_that_sleeps_through_its_call_lands_nothing(
    settings: Settings, spawn: Spawner
) -> None:
    start_services(spawn)
    answer = asyncio.Event()
    async with connect(settings) as stack, ChatServer([held(answer), says_text("")]) as server:
        await write_long_session(stack, "s")
        zombie = await asyncio.to_thread(spawn, "compactor", **asking(server), **LOCK)
        request = await stack.ask("s")
        await server.asked.wait()
        zombie.send(signal.SIGSTOP)
        answer.set()  # the answer waits in the sleeper's socket
        await check_that_the_other_one_lands(stack, spawn, zombie, request)


async def test_a_worker_that_sleeps_right_before_it_publishes_is_refused(
    settings: Settings, spawn: Spawner
) -> None:
    """It has made sure of its lock, so the log alone keeps its checkpoint out."""
    start_services(spawn)
    async with connect(settings) as stack:
        await write_long_session(stack, "s")
        zombie = spawn("compactor", **STOP_BEFORE_PUBLISHING, **LOCK)
        status = Path(f"/proc/{zombie.pid}/status")
        request = await stack.ask("s")
        await asyncio.to_thread(
            wait_until, "the worker stops", lambda: "State:\tT" in status.read_text()
        )
        await check_that_the_other_one_lands(stack, spawn, zombie, request)


async def check_that_the_other_one_lands(
    stack: Stack, spawn: Spawner, zombie: Spawned, request: CompactionRequest
) -> None:
    await asyncio.to_thread(spawn, "compactor", **LOCK)
    outcome = await stack.outcome(request)
    assert outcome.status == "compacted"
    before = await stack.events("s")
    assert await stack.refusals("s") == []

    zombie.send(signal.SIGCONT)
    await line(zombie, "request done")

    assert await stack.refusals("s") == ["compaction.closed"]
    events = await stack.events("s")
    assert events == before
    assert end_classes(events) == ["orphaned", None]
    (landed,) = data_of(events, "compaction/summary")
    assert member(landed, "compactionId") == outcome.compaction_id
    assert (await stack.outcome(request)) == outcome
    await stack.check_surface("s")
