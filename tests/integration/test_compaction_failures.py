"""Every class of failure of a compaction, met on real services: a fact in the log, and an outcome.

`busy` alone leaves none: the log refused the compaction/start, and a refusal is a receipt.
"""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import pytest
from tests.chat_server import SUMMARY, USAGE, ChatServer, held, says, says_text
from tests.integration.compaction_stack import (
    Stack,
    asking,
    connect,
    data_of,
    end_classes,
    eventually,
    line,
    start_services,
    write_long_session,
)
from tests.live_session import compaction_start

from surfacelog.projections.keys import Keys
from surfacelog.schemas.json_value import member
from surfacelog.schemas.records import AppendRequest

if TYPE_CHECKING:
    from tests.processes import Spawner

    from surfacelog.schemas.json_value import JsonValue
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services


async def failed_end(stack: Stack, session_id: str) -> JsonValue:
    """Return the data of the only compaction/end; nothing else of a compaction may be there."""
    events = await stack.events(session_id)
    assert data_of(events, "compaction/summary") == []
    (end,) = data_of(events, "compaction/end")
    await stack.check_surface(session_id)
    return end


async def test_busy_someone_else_compacts_and_the_projection_does_not_show_it_yet(
    settings: Settings, spawn: Spawner
) -> None:
    spawn("sequencer")
    projector = spawn("projector")
    async with connect(settings) as stack:
        await write_long_session(stack, "s")
        spawn("compactor")
        projector.send(signal.SIGSTOP)
        theirs = (compaction_start("theirs"),)
        await stack.appends.send(AppendRequest("s", "other", 0, 0, 0, "compactor", theirs))
        request = await stack.compactions.request("s", generation=0, requested_by="test")

        async def refused() -> bool:
            return await stack.refusals("s") == ["compaction.busy"]

        await eventually(refused)
        projector.send(signal.SIGCONT)
        outcome = await stack.outcome(request)

        assert (outcome.status, outcome.failure) == ("failed", "busy")
        assert "theirs" in str(outcome.reason)
        events = await stack.events("s")
        assert [member(d, "compactionId") for d in data_of(events, "compaction/start")] == [
            "theirs"
        ]


async def test_summary_the_model_was_paid_for_nothing(stack: Stack, spawn: Spawner) -> None:
    await write_long_session(stack, "s")
    async with ChatServer([says_text("I am sorry, I cannot do that.")]) as server:
        await asyncio.to_thread(spawn, "compactor", **asking(server))
        outcome = await stack.outcome(await stack.ask("s"))

    assert (outcome.status, outcome.failure) == ("failed", "summary")
    end = await failed_end(stack, "s")
    assert member(end, "errorClass") == "summary"
    assert "lacks the sections" in str(member(end, "error"))
    cost = member(end, "cost")
    assert (member(cost, "provider"), member(cost, "model")) == (server.place, "m-1")
    assert member(cost, "attempts") == 1
    assert member(member(cost, "usage"), "outputTokens") == USAGE["completion_tokens"]


async def test_changed_the_tail_is_not_what_it_was(stack: Stack, spawn: Spawner) -> None:
    """The log lets nobody replace anything meanwhile, so only the projection can be wrong."""
    last = await write_long_session(stack, "s")
    go_on = asyncio.Event()
    async with ChatServer([held(go_on)]) as server:
        await asyncio.to_thread(spawn, "compactor", **asking(server))
        request = await stack.ask("s")
        await server.asked.wait()
        messages = Keys(stack.settings.namespace).session("s", "v")
        shown = await stack.calls.one(("HGET", messages, last))
        await stack.calls.one(("HSET", messages, last, shown.replace(b"go on", b"go off")))
        go_on.set()
        outcome = await stack.outcome(request)

    assert (outcome.status, outcome.failure) == ("failed", "changed")
    await stack.calls.one(("HSET", messages, last, shown))
    assert member(await failed_end(stack, "s"), "errorClass") == "changed"


async def test_commit_the_log_does_not_take_it(stack: Stack, spawn: Spawner) -> None:
    await write_long_session(stack, "s")
    rambling = says({"reasoning_content": "well, " * 3000}, {"content": SUMMARY})
    async with ChatServer([rambling]) as server:
        await asyncio.to_thread(
            spawn, "compactor", **asking(server), SURFACELOG_MAX_APPEND_BYTES="8192"
        )
        outcome = await stack.outcome(await stack.ask("s"))

    assert (outcome.status, outcome.failure) == ("failed", "commit")
    end = await failed_end(stack, "s")
    assert member(end, "errorClass") == "commit"
    assert "too_large" in str(member(end, "error"))


async def test_persistence_is_tried_again_and_paid_once(settings: Settings, spawn: Spawner) -> None:
    """What Redis holds of the session cannot be read until the projector makes it anew."""
    _, projector = start_services(spawn)
    go_on = asyncio.Event()
    async with connect(settings) as stack, ChatServer([held(go_on)]) as server:
        await write_long_session(stack, "s")
        await asyncio.to_thread(
            spawn, "compactor", **asking(server), SURFACELOG_COMPACTOR_LOCK_SECONDS="2"
        )
        request = await stack.ask("s")
        await server.asked.wait()
        projector.send(signal.SIGSTOP)
        state = Keys(settings.namespace).session("s", "m")
        await stack.calls.run([("DEL", state), ("SET", state, "not a hash")])
        go_on.set()

        async def failed() -> bool:
            return end_classes(await stack.events("s")) == ["persistence"]

        await eventually(failed)
        projector.send(signal.SIGCONT)
        outcome = await stack.outcome(request)

        assert outcome.status == "compacted"
        assert len(server.received) == 1
        events = await stack.events("s")
        assert end_classes(events) == ["persistence", None]
        assert len(data_of(events, "compaction/summary")) == 1
        await stack.check_surface("s")


async def test_cancelled_the_worker_is_told_to_stop(stack: Stack, spawn: Spawner) -> None:
    await write_long_session(stack, "s")
    async with ChatServer([held(asyncio.Event()), says_text(SUMMARY)]) as server:
        worker = await asyncio.to_thread(spawn, "compactor", **asking(server))
        request = await stack.ask("s")
        await server.asked.wait()
        assert await asyncio.to_thread(worker.terminate, 10) == 0
        await asyncio.wait_for(server.left.wait(), 5)
        assert member(await failed_end(stack, "s"), "errorClass") == "cancelled"

        await asyncio.to_thread(spawn, "compactor", **asking(server))
        outcome = await stack.outcome(request)

    assert outcome.status == "compacted", "what a stop cut off goes on elsewhere"
    events = await stack.events("s")
    assert end_classes(events) == ["cancelled", None]
    (receipt,) = data_of(events, "surfacelog/compaction-receipt")
    assert member(receipt, "attempts") == 2


async def test_a_stop_is_bounded_where_nothing_answers(settings: Settings, spawn: Spawner) -> None:
    """The sequencer is away, so the bracket cannot be ended; elsewhere another has the lock."""
    sequencer, _ = start_services(spawn)
    async with connect(settings) as stack, ChatServer([held(asyncio.Event())]) as server:
        for session_id in ("begun", "waiting"):
            await write_long_session(stack, session_id)
        await stack.calls.one(("SET", Keys(settings.namespace).lock("waiting"), "another worker"))
        worker = await asyncio.to_thread(spawn, "compactor", **asking(server))
        await stack.ask("waiting")
        await stack.ask("begun")
        await server.asked.wait()
        sequencer.send(signal.SIGSTOP)
        assert await asyncio.to_thread(worker.terminate, 19) == 0
        await line(worker, "compaction left open")

        sequencer.send(signal.SIGCONT)
        await asyncio.to_thread(spawn, "compactor", SURFACELOG_COMPACTOR_LOCK_SECONDS="1")

        async def ended() -> bool:
            return (await stack.surface.read("begun")).open_compaction is None

        await eventually(ended)
