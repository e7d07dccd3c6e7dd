"""Many sessions under pressure at once, a few compactors, and a model that sometimes fails.

Nobody asks for a compaction but the projector. What is drawn, the sessions' sizes and how the model
answers, follows from one seed.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surfacelog.projections.surface import fold_surface
from surfacelog.schemas.chunk_runs import unpack_items
from surfacelog.schemas.json_value import int_member, member
from tests.chat_server import SUMMARY, ChatServer, answers, held_for, says_text
from tests.integration.compaction_stack import (
    Stack,
    asking,
    connect,
    data_of,
    end_classes,
    eventually,
)
from tests.live_session import assistant, event, step_end, step_start, turn_start, user
from tests.sequencing import Bus

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings
    from tests.chat_server import Reply
    from tests.processes import Spawner

WORKERS = 4
WINDOW = 4000
"""The threshold is 3,200 tokens; a step costs about 510, so that 7 pass it."""

TEXT = "word " * 400
WRITING_AT_ONCE = 32


@dataclass
class Figures:
    """What a run took. `waits` are each session's seconds from the workers' start to its end."""

    seconds: float
    calls: int
    waits: list[float]
    failures: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    compactions: int = 0
    attempts: int = 0


async def compact_fleet(settings: Settings, spawn: Spawner, count: int, seed: int) -> Figures:
    """Write `count` sessions over their threshold, compact them all, and check every one."""
    drawn = random.Random(seed)
    for name in ("sequencer", "projector"):
        await asyncio.to_thread(spawn, name, SURFACELOG_COMPACTION_BACKOFF_SECONDS="1")
    replies = [_reply(drawn) for _ in range(4 * count)]
    async with connect(settings) as stack, ChatServer(replies) as server:
        ids = [f"s{number}" for number in range(count)]
        await _write_all(stack, {session_id: drawn.randint(7, 12) for session_id in ids})
        began, clock = time.time(), time.monotonic()
        starting = (asyncio.to_thread(spawn, "compactor", **asking(server)) for _ in range(WORKERS))
        await asyncio.gather(*starting)

        async def all_below() -> bool:
            entries = await stack.surface.sessions(count)
            return all(e.generation > 0 and e.status == "running" for e in entries)

        await eventually(all_below, 60 + count)
        figures = Figures(time.monotonic() - clock, len(server.received), [])
        for session_id, events in (await _logs(stack)).items():
            await _check(stack, session_id, events, figures, began)
        receipts = await asyncio.to_thread(Bus(settings, stack.codec).receipts)
        figures.refusals.update(str(r.code) for r in receipts if r.status == "refused")
        assert len(figures.waits) == count
        return figures


def _reply(drawn: random.Random) -> Reply:
    chance = drawn.random()
    if chance < 0.05:
        return answers(429, retry_after="1")
    if chance < 0.1:
        return says_text("I would rather not.")
    return held_for(drawn.uniform(0.05, 0.5), SUMMARY)


async def _write_all(stack: Stack, steps: dict[str, int]) -> None:
    places = asyncio.Semaphore(WRITING_AT_ONCE)

    async def write(session_id: str) -> None:
        async with places:
            last = await _write(stack, session_id, steps[session_id])
            await stack.read(session_id, last)

    await asyncio.gather(*map(write, steps))


async def _write(stack: Stack, session_id: str, steps: int) -> int:
    config: JsonObject = {"provider": "p", "model": "m"}
    await stack.open(session_id)
    receipt = await stack.owner(
        session_id,
        turn_start(),
        event("request/header", {"header": {"config": config}, "reason": "initial"}),
        event("request/context", {**config, "contextWindow": WINDOW}),
    )
    for step in range(1, steps + 1):
        receipt = await stack.owner(
            session_id, step_start(step), user(TEXT), assistant(step=step), step_end(step)
        )
    assert receipt.last_seq is not None
    return receipt.last_seq


async def _logs(stack: Stack) -> dict[str, list[JsonObject]]:
    logs: dict[str, list[JsonObject]] = defaultdict(list)
    for batch in await asyncio.to_thread(Bus(stack.settings, stack.codec).batches):
        logs[batch.session_id] += unpack_items(batch.items, batch.first_seq)
    return logs


async def _check(
    stack: Stack, session_id: str, events: list[JsonObject], figures: Figures, began: float
) -> None:
    """Every bracket is closed, what landed is on the Surface, and the Surface is the fold."""
    assert [e["seq"] for e in events] == list(range(len(events)))
    cut = await stack.read(session_id, len(events) - 1)
    assert list(cut.nodes) == fold_surface(events).nodes
    ends, landed = end_classes(events), data_of(events, "compaction/summary")
    assert len(data_of(events, "compaction/start")) == len(ends)
    assert ends.count(None) == len(landed) == cut.generation
    figures.failures.update(str(name) for name in ends if name is not None)
    figures.compactions += len(landed)
    receipts = data_of(events, "surfacelog/compaction-receipt")
    figures.attempts += sum(int_member(receipt, "attempts") or 0 for receipt in receipts)
    assert all(member(r, "tailDigestBefore") == member(r, "tailDigestAfter") for r in receipts)
    first = next(
        int_member(e, "time") or 0
        for e in events
        if e["type"] == "compaction/end" and member(e["data"], "error") is None
    )
    figures.waits.append(first / 1000 - began)
