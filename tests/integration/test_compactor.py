"""Compactions on real services, from the request to the Surface and its waiters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.compaction_stack import Stack, command, write_long_session
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

if TYPE_CHECKING:
    from tests.processes import Spawner

pytestmark = pytest.mark.services

OUTCOME_SECONDS = 30.0


async def test_one_request_twice_and_two_workers_make_one_compaction(
    stack: Stack, spawn: Spawner
) -> None:
    await write_long_session(stack, "twice")
    request = await stack.compactions.request("twice", generation=0, requested_by="test")
    await stack.compactions.send(request)
    other = await stack.compactions.request("twice", generation=0, requested_by="other")
    spawn("compactor")
    spawn("compactor")

    outcome = await stack.compactions.outcome(request, OUTCOME_SECONDS)
    assert outcome.status == "compacted"
    after = await stack.compactions.outcome(other, OUTCOME_SECONDS)
    assert after.status == "nothing_to_do"
    assert after.generation == 1
    types = [event["type"] for event in await stack.events("twice")]
    assert types.count("compaction/start") == types.count("compaction/end") == 1
    await stack.check_surface("twice")


async def test_an_overflow_prunes_first_and_then_leaves_the_last_node(
    stack: Stack, spawn: Spawner
) -> None:
    await stack.open("full")
    await stack.owner("full", turn_start(), step_start(), user("look"), assistant("c1"))
    receipt = await stack.owner("full", call("c1"), result("c1", "x" * 20_000), step_end())
    assert receipt.last_seq is not None
    await stack.read("full", receipt.last_seq)
    spawn("compactor")

    pruning = await stack.compactions.request(
        "full", generation=0, requested_by="test", trigger="context-overflow"
    )
    pruned = await stack.compactions.outcome(pruning, OUTCOME_SECONDS)
    assert pruned.status == "pruned", "the call's result is the last node: no balanced cut"
    assert pruned.generation == 1
    assert (pruned.tokens_after or 0) < (pruned.tokens_before or 0)

    receipt = await stack.owner("full", turn_end(), turn_start(2), user("on"))
    assert receipt.last_seq is not None
    await stack.read("full", receipt.last_seq)
    compacting = await stack.compactions.request(
        "full", generation=1, requested_by="test", trigger="context-overflow"
    )
    outcome = await stack.compactions.outcome(compacting, OUTCOME_SECONDS)
    assert outcome.status == "compacted"
    cut = await stack.check_surface("full")
    assert len(cut.nodes) == 2
    types = [event["type"] for event in await stack.events("full")]
    assert types.count("compaction/prune") == 1


async def test_the_command_line_shows_compacts_and_says_when_there_is_nothing_to_do(
    stack: Stack, spawn: Spawner
) -> None:
    spawn("compactor")
    await write_long_session(stack, "cli")
    before = await stack.surface.read("cli")

    _, dry = await command(stack.settings, "compact", "cli", "--dry-run")
    assert dry == {
        "range": {"start": before.nodes[0], "end": before.nodes[-2]},
        "shadowed": list(before.nodes[:-1]),
        "tokens_before": before.tokens.surface,
    }
    _, done = await command(stack.settings, "compact", "cli")
    assert list(done) == [
        "compaction_id",
        "generation",
        "shadowed",
        "tokens_before",
        "tokens_after",
        "checkpoint_seq",
    ]
    after = await stack.check_surface("cli")
    assert done["shadowed"] == dry["shadowed"]
    assert done["tokens_after"] == after.tokens.surface < before.tokens.surface
    assert done["generation"] == after.generation == 1

    _, nothing = await command(stack.settings, "compact", "cli")
    assert nothing["checkpoint_seq"] is None
    assert nothing["tokens_after"] == nothing["tokens_before"] == after.tokens.surface
    assert "nothing" in str(nothing["reason"])
