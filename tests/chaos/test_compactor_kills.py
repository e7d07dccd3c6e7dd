"""Compactors killed at every step of a compaction: exactly one lands, its bracket is closed."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest
from tests.chat_server import SUMMARY, ChatServer, held, says_text
from tests.integration.compaction_stack import (
    LONG,
    OUTCOME_SECONDS,
    asking,
    connect,
    data_of,
    end_classes,
    start_services,
)
from tests.live_session import (
    assistant,
    call,
    result,
    step_end,
    step_start,
    turn_end,
    turn_start,
    user,
)

from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from tests.integration.compaction_stack import Stack
    from tests.processes import Spawner

    from surfacelog.schemas.settings import Settings

pytestmark = [pytest.mark.services, pytest.mark.chaos, pytest.mark.timeout(420)]

BEFORE_THE_CALL = ("compactor-locked", "compactor-pruned", "compactor-started", "compactor-calling")
AFTER_THE_CALL = ("compactor-kept", "compactor-published", "compactor-committing")
BRACKETS_LEFT_OPEN = 4
"""By those who died after the start, before and in the call, and before the append was sent."""

LOCK = {"SURFACELOG_COMPACTOR_LOCK_SECONDS": "2"}


async def test_a_request_survives_a_kill_at_every_step(settings: Settings, spawn: Spawner) -> None:
    """One request, eight workers: each dies one step further, and two more finish together.

    A worker inherits the request when its predecessor's group membership has timed out.
    """
    start_services(spawn)
    answers = [held(asyncio.Event()), says_text(SUMMARY)]
    async with connect(settings) as stack, ChatServer(answers) as server:
        await write_session_with_long_results(stack)
        request = await stack.compactions.request(
            "hunted", generation=0, requested_by="test", trigger="context-overflow"
        )

        async def die_at(name: str) -> None:
            worker = await asyncio.to_thread(
                spawn, "compactor", SURFACELOG_FAILPOINT=name, **asking(server), **LOCK
            )
            status = await asyncio.to_thread(worker.wait_exit, OUTCOME_SECONDS)
            assert status == -signal.SIGKILL, name

        for name in BEFORE_THE_CALL:
            await die_at(name)
        assert server.received == []
        caller = await asyncio.to_thread(spawn, "compactor", **asking(server), **LOCK)
        await asyncio.wait_for(server.asked.wait(), OUTCOME_SECONDS)
        caller.kill()
        for name in AFTER_THE_CALL:
            await die_at(name)
        last = [await asyncio.to_thread(spawn, "compactor", **asking(server), **LOCK)]
        last.append(await asyncio.to_thread(spawn, "compactor", **asking(server), **LOCK))

        outcome = await stack.outcome(request)
        assert outcome.status == "compacted"
        assert len(server.received) == 2, "the call that a kill cut off, and the one kept"
        await check_log(stack)
        for worker in last:
            assert await asyncio.to_thread(worker.terminate) == 0
        done = [line for worker in last for line in worker.lines if "request done" in line]
        assert len(done) == 1
        await check_log(stack)


async def check_log(stack: Stack) -> None:
    events = await stack.events("hunted")
    types = [event["type"] for event in events]
    assert types.count("compaction/summary") == 1
    assert types.count("compaction/prune") == 2
    assert end_classes(events) == ["orphaned"] * BRACKETS_LEFT_OPEN + [None]
    assert types.count("compaction/start") == types.count("compaction/end")
    (receipt,) = data_of(events, "surfacelog/compaction-receipt")
    assert member(receipt, "attempts") == 3, "two were cut off, one of them before it was sent"
    await stack.check_surface("hunted")


async def write_session_with_long_results(stack: Stack) -> None:
    """Write a turn with two results to prune, and leave the next one open."""
    await stack.open("hunted")
    await stack.owner("hunted", turn_start(), step_start(), user(LONG), assistant("c1", "c2"))
    results = (result(name, f"{name} says " * 2000) for name in ("c1", "c2"))
    await stack.owner("hunted", call("c1"), call("c2"), *results, step_end(), turn_end())
    receipt = await stack.owner("hunted", turn_start(2), user("go on"))
    assert receipt.last_seq is not None
    await stack.read("hunted", receipt.last_seq)
