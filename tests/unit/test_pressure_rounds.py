"""What one pressure request leads to, on a session in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import pytest
from tests.compaction_bench import Bench, Summarizing, checkpoints, ends
from tests.live_session import (
    admitted,
    assistant,
    event,
    step_end,
    step_start,
    turn_end,
    turn_start,
    user,
)

from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.processors.compactor.pressure_rounds import PressureRounds
from surfacelog.projections.compaction_plan import NothingToCompactError
from surfacelog.projections.reader import SurfaceCut, Tokens
from surfacelog.projections.session_view import SessionView
from surfacelog.schemas.event_types import NO_PROGRESS
from surfacelog.schemas.json_value import member
from surfacelog.schemas.records import CompactionRequest

if TYPE_CHECKING:
    from surfacelog.processors.compactor.lock import SessionLock
    from surfacelog.processors.summarizers.protocol import Summary, SummaryRequest
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.json_value import JsonObject

LONG = "word " * 400
"""About 500 tokens. The window is 4,000: the threshold is 3,200, and 640 stay."""

TURN = 2


@dataclass
class FullBench(Bench):
    """A bench whose cuts are measured, of a session in the second turn."""

    async def read(
        self, session_id: str, *, at_least: int | None = None, **timeout: float
    ) -> SurfaceCut:
        cut = await super().read(session_id, at_least=at_least, **timeout)
        view = SessionView(session_id)
        for offset, batch in enumerate(self.session.log):
            view.apply(batch, offset)
        load = view.load()
        return replace(
            cut,
            tokens=Tokens(load.surface, load.header, load.total, None),
            context={"contextWindow": view.pressure.window},
            pressure=view.pressure,
        )

    async def relieve(self) -> CompactionOutcome:
        cut = await self.read("s")
        request = CompactionRequest("pressure-0-0", "s", "pressure", cut.generation, "test")
        return await PressureRounds(request, cast("SessionLock", self.lock), self.tools).run(cut)

    def step(self, number: int, text: str) -> None:
        place: dict[str, int] = {"turn": TURN, "step": number}
        admitted(
            self.session.owner(
                step_start(number, TURN), user(text), assistant(**place), step_end(number, TURN)
            )
        )

    def no_progress(self) -> list[JsonObject]:
        return [event for event in self.log() if event["type"] == NO_PROGRESS]


@pytest.fixture
def bench() -> FullBench:
    return begin("be brief")


def begin(system: str) -> FullBench:
    bench = FullBench()
    config: JsonObject = {"provider": "p", "model": "m"}
    header: JsonObject = {"header": {"config": config, "system": system}, "reason": "initial"}
    context: JsonObject = {"provider": "p", "model": "m", "contextWindow": 4000}
    admitted(bench.session.owner(turn_start(), user("begin"), turn_end()))
    admitted(
        bench.session.owner(
            turn_start(TURN), event("request/header", header), event("request/context", context)
        )
    )
    return bench


async def test_one_round_is_enough_where_the_tail_is_small(bench: FullBench) -> None:
    for number in range(1, 8):
        bench.step(number, LONG)

    outcome = await bench.relieve()

    assert outcome.status == "compacted"
    assert ends(bench) == [(None, None)]
    assert bench.no_progress() == []
    with pytest.raises(NothingToCompactError, match="below the threshold"):
        await bench.relieve()


async def test_a_second_round_takes_what_came_during_the_first(bench: FullBench) -> None:
    for number in range(1, 8):
        bench.step(number, LONG)
    late = iter(range(8, 15))

    async def agent_goes_on(_request: SummaryRequest) -> None:
        for number in late:
            bench.step(number, LONG)

    bench.summarizer = Summarizing(agent_goes_on)

    outcome = await bench.relieve()

    assert ends(bench) == [(None, None)] * 2
    assert checkpoints(bench) == [outcome.compaction_id]
    assert (outcome.tokens_before or 0) > 14 * 500, "that of the first round"
    assert (outcome.tokens_after or 0) < 3200
    assert bench.no_progress() == []


async def test_the_envelope_alone_over_the_threshold_is_said_once(bench: FullBench) -> None:
    bench = begin("x" * 13_000)
    bench.step(1, LONG)
    bench.step(2, LONG)

    with pytest.raises(NothingToCompactError, match="system prompt, tools and the last message"):
        await bench.relieve()

    (said,) = bench.no_progress()
    assert said["ignorable"] is True
    assert member(said["data"], "headerTokens") == 3254
    assert member(said["data"], "thresholdTokens") == 3200
    bench.step(3, LONG * 3)
    with pytest.raises(NothingToCompactError, match="nothing has changed"):
        await bench.relieve()
    assert len(bench.no_progress()) == 1
    assert "compaction/start" not in bench.types()


async def test_a_compaction_that_does_not_get_below_says_so(bench: FullBench) -> None:
    bench.step(1, LONG)
    bench.step(2, LONG * 7)

    outcome = await bench.relieve()

    assert outcome.status == "compacted"
    (said,) = bench.no_progress()
    assert "checkpoint already" in str(member(said["data"], "reason"))
    assert member(said["data"], "generation") == 1 == outcome.generation
    with pytest.raises(NothingToCompactError, match="nothing has changed"):
        await bench.relieve()
    bench.step(3, LONG * 2)
    relieved = await bench.relieve()
    assert relieved.status == "compacted", "the long message is no part of the tail any more"
    assert len(bench.no_progress()) == 1


async def test_an_agent_that_writes_faster_than_all_rounds_is_told_of(bench: FullBench) -> None:
    for number in range(1, 8):
        bench.step(number, LONG)
    numbers = iter(range(8, 99))

    async def agent_goes_on(_request: SummaryRequest) -> None:
        for _ in range(7):
            bench.step(next(numbers), LONG)

    bench.summarizer = Summarizing(agent_goes_on)

    outcome = await bench.relieve()

    assert outcome.status == "compacted"
    assert ends(bench) == [(None, None)] * 2, "one more round than the policy's retries"
    (said,) = bench.no_progress()
    assert member(said["data"], "reason") == "the session is still over its threshold"
    assert member(said["data"], "generation") == 2 == outcome.generation


async def test_a_failure_counts_unless_a_round_has_landed(bench: FullBench) -> None:
    for number in range(1, 8):
        bench.step(number, LONG)
    late = iter(range(8, 15))
    failing = CompactionFailedError("summary", "blank")

    async def then_fail(_request: SummaryRequest) -> Summary | None:
        numbers = list(late)
        if not numbers:
            raise failing
        for number in numbers:
            bench.step(number, LONG)
        return None

    bench.summarizer = Summarizing(then_fail)

    outcome = await bench.relieve()
    assert outcome.status == "compacted"
    assert outcome.reason == "a further round failed: blank"
    with pytest.raises(CompactionFailedError, match="blank"):
        await bench.relieve()
    assert ends(bench) == [(None, None), ("blank", "summary"), ("blank", "summary")]
