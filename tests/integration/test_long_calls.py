"""Calls of a model that take long: partitions, other sessions and the session itself go on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.chat_server import SUMMARY, ChatServer, held, says_text
from tests.integration.compaction_stack import (
    Stack,
    asking,
    command,
    end_classes,
    line,
    write_long_session,
)
from tests.live_session import assistant, posted, step_end, step_start, user

from surfacelog.projections.checkpoint import checkpoint_of, checkpoint_text
from surfacelog.projections.conservation import nodes_digest
from surfacelog.projections.messages import message_of
from surfacelog.projections.summary_sections import missing_sections
from surfacelog.projections.surface import fold_surface
from surfacelog.schemas.event_types import COMPACTION_RECEIPT
from surfacelog.schemas.json_value import member
from surfacelog.schemas.records import AppendRequest

if TYPE_CHECKING:
    from tests.processes import Spawner

    from surfacelog.schemas.json_value import JsonObject

pytestmark = pytest.mark.services

POLL_SECONDS = 6.0
"""The shortest that the broker allows, and 50 times shorter than by default."""


async def test_a_long_call_costs_no_partitions_and_no_place_of_another_session(
    stack: Stack, spawn: Spawner
) -> None:
    """Two calls fill both places; the others wait, and the worker keeps what it was assigned."""
    sessions = [f"s{n}" for n in range(4)]
    for session_id in sessions:
        await write_long_session(stack, session_id)
    go_on = asyncio.Event()
    async with ChatServer([held(go_on), held(go_on), says_text(SUMMARY)]) as server:
        worker = await asyncio.to_thread(
            spawn,
            "compactor",
            **asking(server),
            SURFACELOG_COMPACTOR_POLL_SECONDS=str(POLL_SECONDS),
            SURFACELOG_COMPACTOR_CONCURRENCY="2",
        )
        requests = [await stack.ask(session_id) for session_id in sessions]
        await server.asked.wait()
        await asyncio.sleep(1.5 * POLL_SECONDS)  # how long the call takes: nothing else tells
        assert len(server.received) == 2
        go_on.set()
        outcomes = [await stack.outcome(request) for request in requests]

    assert {outcome.status for outcome in outcomes} == {"compacted"}
    assert len(server.received) == len(sessions)
    assert await asyncio.to_thread(worker.terminate) == 0
    assert len([one for one in worker.lines if "partitions assigned" in one]) == 1
    assert not [one for one in worker.lines if "not committed" in one]
    lost = [n for n, one in enumerate(worker.lines) if "partitions lost" in one]
    done = [n for n, one in enumerate(worker.lines) if "request done" in one]
    assert not lost or lost[0] > done[-1], "only the stop takes its partitions away"


async def test_500_events_of_many_writers_during_one_call(stack: Stack, spawn: Spawner) -> None:
    await write_long_session(stack, "s")
    before = await stack.surface.read("s")
    go_on = asyncio.Event()
    async with ChatServer([held(go_on)]) as server:
        await asyncio.to_thread(spawn, "compactor", **asking(server))
        request = await stack.ask("s")
        await server.asked.wait()
        written, posts = await asyncio.gather(
            write_steps(stack, 60), asyncio.gather(*(post(stack, n) for n in range(4)))
        )
        go_on.set()
        outcome = await stack.outcome(request)

    assert outcome.status == "compacted"
    cut = await stack.check_surface("s")
    assert cut.nodes == (outcome.checkpoint_seq, before.nodes[-1], *written)
    assert outcome.shadowed == before.nodes[:-1]
    notes = [seq for seqs in posts for seq in seqs]
    assert outcome.checkpoint_seq is not None
    assert max(*written, *notes) < outcome.checkpoint_seq, "all of it came during the call"
    shown = [m["content"] for m in cut.messages[2:] if m["role"] == "user"]
    assert shown == [[{"type": "text", "text": f"message {n}"}] for n in range(1, 61)]
    inbox = await stack.surface.inbox("s")
    assert [e["seq"] for e in inbox] == sorted(notes)
    assert checkpoint_of(cut.messages[0]) == outcome.compaction_id
    assert missing_sections(checkpoint_text(cut.messages[0])) == ()
    events = await stack.events("s")
    check_receipt(events, outcome.checkpoint_seq)
    assert len(events) > 500
    assert [event["seq"] for event in events] == list(range(len(events)))


def check_receipt(events: list[JsonObject], checkpoint_seq: int) -> None:
    """Compute every figure of a conservation receipt again from the log."""
    receipt = events[checkpoint_seq + 1]
    assert receipt["type"] == COMPACTION_RECEIPT
    data = receipt["data"]

    def nodes_at(seqs: object) -> list[tuple[int, JsonObject | None]]:
        assert isinstance(seqs, list)
        return [(seq, message_of(events[seq])) for seq in seqs]

    as_of = member(data, "asOfSeq")
    assert isinstance(as_of, int)
    before = fold_surface(events[: as_of + 1])
    after = fold_surface(events[: checkpoint_seq + 3])
    shadowed, tail = member(data, "shadowedSeqs"), member(data, "tailSeqs")
    assert isinstance(shadowed, list)
    assert isinstance(tail, list)
    assert before.nodes[: len(shadowed) + len(tail)] == [*shadowed, *tail]
    assert after.nodes[: 1 + len(tail)] == [checkpoint_seq, *tail]
    assert before.generation == member(data, "generation") == after.generation - 1
    assert member(data, "shadowedDigest") == nodes_digest(nodes_at(shadowed))
    digests = [member(data, "tailDigestBefore"), member(data, "tailDigestAfter")]
    assert digests == [nodes_digest(nodes_at(tail))] * 2


async def write_steps(stack: Stack, count: int) -> list[int]:
    """Write steps of four events as the owner; return the seqs of their messages."""
    seqs = []
    for n in range(1, count + 1):
        answer = assistant(turn=2, step=n)
        receipt = await stack.owner(
            "s", step_start(n, 2), user(f"message {n}"), answer, step_end(n, 2)
        )
        assert receipt.first_seq is not None
        seqs += [receipt.first_seq + 1, receipt.first_seq + 2]
    return seqs


async def post(stack: Stack, number: int) -> list[int]:
    """Post 65 notes to the session's inbox as one contributor; return their seqs."""
    seqs = []
    for n in range(65):
        note = (posted(f"{number}: note {n}"),)
        sent = AppendRequest("s", f"peer-{number}", 0, 0, 0, "contributor", note)
        receipt = await (await stack.appends.send(sent))
        assert receipt.first_seq is not None, receipt
        seqs.append(receipt.first_seq)
    return seqs


async def test_an_operator_cancels_a_call_and_is_told_what_became_of_it(
    stack: Stack, spawn: Spawner
) -> None:
    await write_long_session(stack, "s")
    async with ChatServer([held(asyncio.Event())]) as server:
        worker = await asyncio.to_thread(spawn, "compactor", **asking(server))
        waiting = asyncio.create_task(command(stack.settings, "compact", "s"))
        await server.asked.wait()
        assert (await stack.surface.read("s")).open_compaction is not None

        status, cancelled = await command(stack.settings, "compact", "s", "--cancel")
        await asyncio.wait_for(server.left.wait(), 10)
        waited_status, waited = await waiting
        await line(worker, "request done")

    (start,) = [e["data"] for e in await stack.events("s") if e["type"] == "compaction/start"]
    assert isinstance(start, dict)
    compaction_id = start["compactionId"]
    done = {"session": "s", "compaction_id": compaction_id, "status": "cancelled"}
    assert (status, cancelled) == (0, done)
    assert waited_status == 1
    assert waited["error"]["failure"] == "cancelled"
    assert end_classes(await stack.events("s")) == ["cancelled"]
    await stack.check_surface("s")

    status, nothing = await command(stack.settings, "compact", "s", "--cancel")
    assert (status, nothing["status"], nothing["compaction_id"]) == (0, "nothing_to_do", None)
    assert (await command(stack.settings, "compact", "s", "--cancel", "--dry-run"))[0] == 2
    status, missing = await command(stack.settings, "compact", "nobody", "--cancel")
    assert (status, missing["error"]["code"]) == (1, "not_found")
