"""Compactions whose summaries come from a model, and the commands that account for them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.chat_server import SUMMARY, USAGE, ChatServer, answers, says_text
from tests.integration.compaction_stack import LONG, Stack
from tests.live_session import (
    assistant,
    call,
    event,
    result,
    step_end,
    step_start,
    turn_end,
    turn_start,
    user,
)
from tests.processes import environment_of

from surfacelog.processors.summarizers.openai_request import INSTRUCTION
from surfacelog.projections.checkpoint import checkpoint_text
from surfacelog.schemas.json_value import int_member, member

if TYPE_CHECKING:
    from tests.processes import Spawner

    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

COMMAND_SECONDS = 90.0

REQUEST_HEADER: JsonObject = {
    "config": {"provider": "p", "model": "m-1"},
    "system": "You are careful.",
    "tools": [{"name": "bash", "description": "run", "parameters": {"type": "object"}}],
}
REFUSAL = "I'm sorry, but I cannot help with that."


async def compact(stack: Stack, session_id: str, at_least: int) -> CompactionOutcome:
    cut = await stack.read(session_id, at_least)
    request = await stack.compactions.request(
        session_id, generation=cut.generation, requested_by="test"
    )
    return await stack.compactions.outcome(request, 60)


async def write(stack: Stack, session_id: str, turn: int, text: str) -> int:
    """Write a turn with a call and its result, and leave a user's message behind it."""
    place = {"turn": turn, "step": 1}
    header = event("request/header", {"header": REQUEST_HEADER, "reason": "initial"})
    receipt = await stack.owner(
        session_id,
        turn_start(turn),
        step_start(1, turn),
        user(text),
        *([header] if turn == 1 else []),
        assistant("c1", **place),
        call("c1", **place),
        result("c1", LONG, turn=turn),
        step_end(1, turn),
        turn_end(turn),
        user(f"go on after {turn}"),
    )
    assert receipt.last_seq is not None
    return receipt.last_seq


async def test_a_model_writes_checkpoints_and_every_compaction_is_accounted_for(
    stack: Stack, spawn: Spawner
) -> None:
    summaries = [SUMMARY, SUMMARY.replace("something", "more")]
    replies = [says_text(REFUSAL), answers(429, retry_after="1"), *map(says_text, summaries)]
    async with ChatServer(replies) as server:
        model = {"SURFACELOG_SUMMARIZER": "openai", "SURFACELOG_SUMMARIZER_URL": server.url}
        spawn("compactor", **model)
        await stack.open("s")
        refused = await compact(stack, "s", await write(stack, "s", 1, "the key is 42"))
        first = await compact(stack, "s", await write(stack, "s", 2, "look again"))
        second = await compact(stack, "s", await write(stack, "s", 3, "and again"))

    assert (refused.status, refused.failure) == ("failed", "summary")
    assert (first.status, second.status) == ("compacted", "compacted")
    cut = await stack.check_surface("s")
    assert checkpoint_text(cut.messages[0]) == summaries[1]

    bodies = [received.body for received in server.received]
    assert len(bodies) == 4, "a refused summary is not asked for twice, a busy endpoint is"
    assert bodies[1] == bodies[2]
    check_shared_prefix(bodies)
    await check_records(stack, server)
    await check_commands(stack, first, second)


def check_shared_prefix(bodies: list[bytes]) -> None:
    """The second request goes on, byte for byte, from where the first one's instruction stood."""
    instruction = bodies[0].index(INSTRUCTION[:30].encode())
    assert instruction > bodies[0].index(b"word word")
    assert bodies[1][:instruction] == bodies[0][:instruction]
    tools = [body[body.index(b'"tools":') : body.index(b',"model":')] for body in bodies]
    assert tools[0] == tools[1] == tools[3]
    system = bodies[0][: bodies[0].index(b',{"role":"user"')]
    assert bodies[3].startswith(system), "the system prompt is the same after a compaction"


async def check_records(stack: Stack, server: ChatServer) -> None:
    events = await stack.events("s")
    ends = [e["data"] for e in events if e["type"] == "compaction/end"]
    assert [member(end, "errorClass") for end in ends] == ["summary", None, None]
    assert "lacks the sections" in str(member(ends[0], "error"))
    written, _ = (e["data"] for e in events if e["type"] == "compaction/summary")
    assert (member(written, "provider"), member(written, "model")) == (server.place, "m-1")
    assert member(written, "rawOutput") == [{"type": "text", "text": SUMMARY}]
    assert member(written, "llmStreamCall") is True
    assert int_member(member(written, "usage"), "cacheReadTokens") == 90
    assert int_member(member(written, "usage"), "outputTokens") == USAGE["completion_tokens"]


async def check_commands(stack: Stack, first: CompactionOutcome, second: CompactionOutcome) -> None:
    receipts = await surfacelog(stack.settings, "compactions", "s")
    (failed,) = (one["failure"] for one in receipts if one["receipt"] is None)
    assert member(failed, "errorClass") == "summary"
    data = [one["receipt"] for one in receipts if one["failure"] is None]
    ids = [first.compaction_id, second.compaction_id]
    assert [member(receipt, "compactionId") for receipt in data] == ids
    assert [member(receipt, "attempts") for receipt in data] == [2, 1]

    (hit,) = await surfacelog(stack.settings, "recall", "s", "KEY is")
    assert (hit["seq"], hit["lines"]) == (2, ["the key is 42"])
    assert hit["replacement_chain"] == [first.checkpoint_seq, second.checkpoint_seq]
    assert await surfacelog(stack.settings, "recall", "s", "after 3") == []

    (shadowed,) = await surfacelog(stack.settings, "trace", "s", "2")
    assert shadowed["standing"] == "shadowed"
    assert shadowed["replacement_chain"] == hit["replacement_chain"]
    (current,) = await surfacelog(stack.settings, "trace", "s", str(second.checkpoint_seq))
    assert current["standing"] == "current"
    assert current["replaced"] == list(second.shadowed)
    (log_only,) = await surfacelog(stack.settings, "trace", "s", "0")
    assert (log_only["type"], log_only["standing"]) == ("turn/start", "log-only")
    readable = await run(stack.settings, "compactions", "s")
    assert readable.stdout.count("\tlanded\t") == readable.stdout.count("\tyes\t") == 2
    assert readable.stdout.count("\tfailed (summary)\t") == 1
    missing = await run(stack.settings, "trace", "s", "9999", "--json")
    assert missing.returncode == 1
    assert json.loads(missing.stderr.splitlines()[-1])["error"]["code"] == "not_found"
    assert (await run(stack.settings, "recall", "s", "(")).returncode == 2


async def surfacelog(settings: Settings, *arguments: str) -> list[JsonObject]:
    """Run a command and return the JSON lines that it prints."""
    done = await run(settings, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


async def run(settings: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "surfacelog.processors.cli.main", *arguments],
        env=environment_of(settings),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
