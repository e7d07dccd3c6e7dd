from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.compaction_bench import Bench
from tests.live_session import (
    admitted,
    assistant,
    call,
    result,
    span,
    step_end,
    step_start,
    turn_start,
    user,
)

from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.processors.compactor.prune import prune
from surfacelog.projections.messages import message_of
from surfacelog.projections.pruner import MARKER
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from surfacelog.schemas.records import AppendRequest


@pytest.fixture
def bench() -> Bench:
    """A session with two long results and a short one between them."""
    bench = Bench()
    admitted(bench.session.owner(turn_start(), step_start(), assistant("a", "b", "c")))
    admitted(bench.session.owner(call("a"), call("b"), call("c")))
    admitted(bench.session.owner(result("a", "x" * 9000), result("b", "y")))
    admitted(bench.session.owner(result("c", "z" * 20_000)))
    return bench


async def test_each_long_result_is_pruned_in_an_append_of_its_own(bench: Bench) -> None:
    before = await bench.read("s")

    after = await prune(before, bench.tools)

    first, second = bench.session.log[-2:]
    for batch, shadowed in ((first, before.nodes[1]), (second, before.nodes[3])):
        price, replacement = (item for item in batch.items if isinstance(item, dict))
        assert [price["type"], replacement["type"]] == ["compaction/prune", "tool/result"]
        assert replacement["surfaceOp"] == span(shadowed, shadowed)
        assert MARKER.strip() in str(message_of(replacement))
    assert after.generation == before.generation + 2
    assert after.tokens.surface < before.tokens.surface
    assert after.nodes[0::2] == before.nodes[0::2]
    assert await prune(after, bench.tools) is after


async def test_pruning_stops_when_someone_else_changes_the_surface(bench: Bench) -> None:
    admitted(bench.session.owner(step_end(), user("short")))
    (last,) = bench.fold().nodes[-1:]
    others = [user("other", op=span(last, last), sourceEventSeqs=[last])]

    def replace_before_the_second(_request: AppendRequest) -> None:
        if bench.types().count("compaction/prune") == 1 and others:
            admitted(bench.session.owner(others.pop()))

    bench.before_send = replace_before_the_second

    with pytest.raises(CompactionFailedError) as failed:
        await prune(await bench.read("s"), bench.tools)

    assert failed.value.failure == "changed"
    prunes = [e["data"] for e in bench.log() if e["type"] == "compaction/prune"]
    assert [member(data, "shadowedTokenCount") is not None for data in prunes] == [True]
