"""Generated sessions under random compactions keep every promise (SEMANTICS 3-6)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Literal

from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.compaction_bench import Bench
from tests.live_session import (
    admitted,
    assistant,
    call,
    result,
    step_end,
    step_start,
    turn_end,
    turn_start,
    user,
)

from surfacelog.projections.checkpoint import checkpoint_text
from surfacelog.projections.compaction_plan import NothingToCompactError
from surfacelog.projections.pairing import balanced_cuts, pairing_delta
from surfacelog.projections.summary_sections import missing_sections

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject

Action = tuple[Literal["talk", "call", "turn", "compact"], int]

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("talk"), st.integers(0, 4000)),
        st.tuples(st.just("call"), st.integers(1, 4)),
        st.tuples(st.just("turn"), st.just(0)),
        st.tuples(st.just("compact"), st.sampled_from([0, 0, 50, 500, 10_000])),
    ),
    min_size=8,
    max_size=25,
)


class Agent:
    """Drives one session by actions, so that live admission agrees with every append."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.turn = 1
        self.step = 0
        admitted(self.bench.session.owner(turn_start(1)))

    def talk(self, size: int) -> None:
        text = ("say \U0001f642 " * size)[:size]
        admitted(self.bench.session.owner(user(f"request {size} {text}")))

    def call(self, count: int) -> None:
        self.step += 1
        turn, step = self.turn, self.step
        ids = [f"{self.turn}-{self.step}-{n}" for n in range(count)]
        admitted(
            self.bench.session.owner(
                step_start(self.step, self.turn),
                assistant(*ids, turn=turn, step=step),
                *(call(i, turn=turn, step=step) for i in ids),
                *(result(i, "out " * 50 * count, turn=turn, step=step) for i in reversed(ids)),
                step_end(self.step, self.turn),
            )
        )

    def next_turn(self) -> None:
        admitted(self.bench.session.owner(turn_end(self.turn), turn_start(self.turn + 1)))
        self.turn += 1
        self.step = 0


@settings(max_examples=60, deadline=None, print_blob=True)
@given(ACTIONS)
def test_random_compactions_keep_every_promise(actions: list[Action]) -> None:
    agent = Agent()
    for name, argument in actions:
        if name == "talk":
            agent.talk(argument)
        elif name == "call":
            agent.call(argument)
        elif name == "turn":
            agent.next_turn()
        else:
            asyncio.run(compact_and_check(agent.bench, argument))


async def compact_and_check(bench: Bench, retain: int) -> None:
    before, transcript = await bench.read("s"), append_origin(bench)
    try:
        outcome = await bench.compact(retain)
    except NothingToCompactError:
        assert (await bench.read("s")).as_of_seq == before.as_of_seq
        return
    event(f"compacted {len(outcome.shadowed) > 1}")
    after = await bench.read("s")
    count = len(outcome.shadowed)
    assert before.nodes[:count] == outcome.shadowed
    assert after.nodes == (outcome.checkpoint_seq, *before.nodes[count:])
    assert after.tokens.surface < before.tokens.surface
    assert balanced_cuts(deltas(bench, after.nodes))[1]
    assert bench.session.state is not None
    assert bench.session.state.bracket is None
    assert append_origin(bench) == transcript
    assert missing_sections(checkpoint_text(after.messages[0])) == ()


def append_origin(bench: Bench) -> list[JsonObject]:
    return [event for event in bench.log() if event.get("surfaceOp") == "append"]


def deltas(bench: Bench, nodes: tuple[int, ...]) -> list[int]:
    by_seq = {event["seq"]: event for event in bench.log()}
    return [pairing_delta(by_seq[seq]) for seq in nodes]


@settings(max_examples=5, deadline=None, print_blob=True)
@given(st.integers(0, 2**32 - 1))
def test_checkpoints_stay_bounded_over_thirty_compactions(seed: int) -> None:
    agent = Agent()
    fresh_tokens = []
    for n in range(30):
        before = asyncio.run(agent.bench.read("s")).tokens.surface
        agent.talk(500 + (seed >> n % 16) % 4000)
        agent.call(1 + (seed >> n % 24) % 3)
        agent.talk(10)
        fresh_tokens.append(asyncio.run(agent.bench.read("s")).tokens.surface - before)
        asyncio.run(agent.bench.compact())

    cut = asyncio.run(agent.bench.read("s"))
    # Half of (half of (...) and what was new): a checkpoint never outgrows the largest round.
    assert cut.prices[0] <= max(fresh_tokens)
    text = checkpoint_text(cut.messages[0])
    assert text.count("<compacted-summary>") == 0
    assert missing_sections(text) == ()
