"""What happens to Redis in the middle of a compaction: at most one lands, and one does."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest
from tests.chat_server import ChatServer, held
from tests.integration.compaction_stack import (
    asking,
    command,
    connect,
    data_of,
    end_classes,
    line,
    start_services,
    write_long_session,
)

from surfacelog.projections.keys import Keys

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.integration.compaction_stack import Stack
    from tests.private_redis import PrivateRedis
    from tests.processes import Spawner

    from surfacelog.schemas.settings import Settings

    Accident = Callable[[Stack, PrivateRedis], Awaitable[None]]

pytestmark = [pytest.mark.services, pytest.mark.chaos]

LOCK_SECONDS = 2.0


@pytest.fixture
def settings(settings: Settings, own_redis: PrivateRedis) -> Settings:
    return settings.model_copy(update={"redis": own_redis.url})


async def loses_the_lock(stack: Stack, _redis: PrivateRedis) -> None:
    """Another one has it by now, which gives it back when its time is over."""
    lock = Keys(stack.settings.namespace).lock("s")
    await stack.calls.one(("SET", lock, "another worker", "PX", int(LOCK_SECONDS * 1000)))


async def is_restarted(_stack: Stack, redis: PrivateRedis) -> None:
    await asyncio.to_thread(redis.stop)
    await asyncio.to_thread(redis.start)


async def is_killed_for_longer_than_a_lock_lives(_stack: Stack, redis: PrivateRedis) -> None:
    await asyncio.to_thread(redis.kill)
    await asyncio.sleep(2 * LOCK_SECONDS)  # the outage itself
    await asyncio.to_thread(redis.start)


async def is_emptied(_stack: Stack, redis: PrivateRedis) -> None:
    await asyncio.to_thread(redis.flushall)


@pytest.mark.parametrize(
    ("accident", "ends", "calls"),
    [
        (loses_the_lock, ["cancelled", None], 2),
        (is_restarted, [None], 1),
        (is_killed_for_longer_than_a_lock_lives, ["cancelled", None], 2),
        (is_emptied, ["cancelled", None], 2),
    ],
)
async def test_redis_in_the_middle_of_a_compaction(
    settings: Settings,
    own_redis: PrivateRedis,
    spawn: Spawner,
    accident: Accident,
    ends: list[str | None],
    calls: int,
) -> None:
    start_services(spawn)
    go_on = asyncio.Event()
    async with connect(settings) as stack, ChatServer([held(go_on)]) as server:
        await write_long_session(stack, "s")
        lock = {"SURFACELOG_COMPACTOR_LOCK_SECONDS": str(LOCK_SECONDS)}
        for _ in range(2):
            await asyncio.to_thread(spawn, "compactor", **asking(server), **lock)
        request = await stack.ask("s")
        await server.asked.wait()
        await accident(stack, own_redis)
        if calls > 1:
            await asyncio.wait_for(server.left.wait(), 3 * LOCK_SECONDS)
        go_on.set()
        async with connect(settings) as afterwards:
            outcome = await afterwards.outcome(request)
            assert outcome.status == "compacted"
            events = await afterwards.events("s")
            assert end_classes(events) == ends
            assert len(data_of(events, "compaction/summary")) == 1
            assert len(server.received) == calls
            await afterwards.check_surface("s")


async def test_the_command_line_waits_for_a_redis_that_is_restarted(
    settings: Settings, own_redis: PrivateRedis, spawn: Spawner
) -> None:
    """Seen to fail: the waiter gave up at once, while the compaction went on and landed."""
    start_services(spawn)
    go_on = asyncio.Event()
    async with connect(settings) as stack, ChatServer([held(go_on)]) as server:
        await write_long_session(stack, "s")
        await asyncio.to_thread(spawn, "compactor", **asking(server))
        waiting = asyncio.create_task(command(settings, "compact", "s"))
        await server.asked.wait()
        await is_restarted(stack, own_redis)
        go_on.set()
        status, printed = await waiting
    assert (status, printed["generation"]) == (0, 1), printed
    async with connect(settings) as afterwards:
        cut = await afterwards.check_surface("s")
        assert printed["checkpoint_seq"] in cut.nodes


async def test_a_session_that_redis_has_forgotten_is_waited_for(
    settings: Settings, own_redis: PrivateRedis, spawn: Spawner
) -> None:
    """Its log says that there is one: that the projection does not show it is no outcome."""
    _, projector = start_services(spawn)
    async with connect(settings) as stack:
        await write_long_session(stack, "s")
        worker = spawn("compactor")
        projector.send(signal.SIGSTOP)
        own_redis.flushall()
        request = await stack.compactions.request("s", generation=0, requested_by="test")
        unknown = await stack.compactions.request("nobody", generation=0, requested_by="test")
        await line(worker, "request put off")
        projector.send(signal.SIGCONT)

        assert (await stack.outcome(request)).status == "compacted"
        assert (await stack.outcome(unknown)).failure == "changed"
        await stack.check_surface("s")
