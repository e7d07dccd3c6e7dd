"""Generated sessions under random compactions keep every promise (SEMANTICS 3-6)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from hypothesis import Phase, event, given, settings
from hypothesis import strategies as st
from tests.compaction_bench import Bench, Summarizing
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

from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.processors.compactor.prune import prune
from surfacelog.processors.summarizers.protocol import SummaryError
from surfacelog.projections.checkpoint import checkpoint_text
from surfacelog.projections.compaction_plan import NothingToCompactError
from surfacelog.projections.messages import message_of, tool_call_blocks
from surfacelog.projections.pairing import balanced_cuts, pairing_delta
from surfacelog.projections.summary_sections import missing_sections
from surfacelog.schemas.json_value import list_member, member, object_member

if TYPE_CHECKING:
    from surfacelog.processors.summarizers.protocol import SummaryRequest
    from surfacelog.schemas.json_value import JsonObject, JsonValue

Action = tuple[str, int]

COMPACTIONS = st.tuples(
    st.sampled_from(["compact", "compact while it talks", "compact in vain"]),
    st.sampled_from([0, 0, 50, 500, 10_000]),
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("talk"), st.integers(0, 4000)),
        st.tuples(st.just("call"), st.integers(1, 4)),
        st.tuples(st.just("ask"), st.integers(1, 3)),
        st.tuples(st.just("answer"), st.integers(0, 12_000)),
        st.tuples(st.sampled_from(["turn", "crash", "prune"]), st.just(0)),
        COMPACTIONS,
        COMPACTIONS,
    ),
    min_size=10,
    max_size=30,
)


class Agent:
    """Drives one session by actions, so that live admission agrees with every append.

    `open_calls` are what its last message asked for and no result has answered yet.
    """

    def __init__(self) -> None:
        self.bench = Bench()
        self.turn = 1
        self.step = 0
        self.open_calls: list[str] = []
        admitted(self.bench.session.owner(turn_start(1)))

    def talk(self, size: int) -> None:
        self.settle()
        text = ("say \U0001f642 " * size)[:size]
        admitted(self.bench.session.owner(user(f"request {size} {text}")))

    def ask(self, count: int) -> None:
        self.settle()
        self.step += 1
        ids = [f"{self.turn}-{self.step}-{n}" for n in range(count)]
        asked = assistant(*ids, turn=self.turn, step=self.step)
        admitted(self.bench.session.owner(step_start(self.step, self.turn), asked))
        self.open_calls = ids

    def answer(self, size: int = 50) -> None:
        """Answer the call that was asked for last; the step ends with its last result."""
        if not self.open_calls:
            return
        name, text = self.open_calls.pop(), ("out \u4e2d\u6587 " * size)[:size]
        called = call(name, turn=self.turn, step=self.step)
        answered = result(name, text, turn=self.turn, step=self.step)
        admitted(self.bench.session.owner(called, answered))
        if not self.open_calls:
            admitted(self.bench.session.owner(step_end(self.step, self.turn)))

    def call(self, count: int) -> None:
        self.ask(count)
        self.settle()

    def settle(self) -> None:
        while self.open_calls:
            self.answer()

    def next_turn(self) -> None:
        self.settle()
        admitted(self.bench.session.owner(turn_end(self.turn)))
        self.begin_turn()

    def crash(self) -> None:
        """A new owner opens the session: the sequencer closes what the old one left open."""
        admitted(self.bench.session.open())
        self.open_calls = []
        self.begin_turn()

    def begin_turn(self) -> None:
        self.turn += 1
        self.step = 0
        admitted(self.bench.session.owner(turn_start(self.turn)))


# Not shrunk: that takes minutes, and a failing list of actions is short enough to read.
@settings(
    max_examples=100,
    deadline=None,
    print_blob=True,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(ACTIONS)
def test_random_compactions_keep_every_promise(actions: list[Action]) -> None:
    agent = Agent()
    for name, argument in actions:
        transcript = append_origin(agent.bench)
        asyncio.run(act(agent, name, argument))
        check_surface(agent)
        assert append_origin(agent.bench)[: len(transcript)] == transcript
    agent.bench.session.check()


async def act(agent: Agent, name: str, argument: int) -> None:
    match name:
        case "talk":
            agent.talk(argument)
        case "call":
            agent.call(argument)
        case "ask":
            agent.ask(argument)
        case "answer":
            agent.answer(argument)
        case "turn":
            agent.next_turn()
        case "crash":
            agent.crash()
        case "prune":
            await prune_and_check(agent.bench)
        case _:
            await compact_and_check(agent, name, argument)


def check_surface(agent: Agent) -> None:
    """No call without its result but the open ones, and no result without its call before it."""
    bench = agent.bench
    by_seq = {event["seq"]: event for event in bench.log()}
    asked: list[JsonValue] = []
    for seq in bench.fold().nodes:
        message = message_of(by_seq[seq])
        source = object_member(message, "source")
        if source["kind"] == "tool":
            asked.remove(source["callId"])
        asked += [member(block, "id") for block in tool_call_blocks(message)]
    assert asked == agent.open_calls
    assert balanced_cuts(deltas(bench, tuple(bench.fold().nodes)))[-1] is not bool(asked)
    assert bench.session.state is not None
    assert bench.session.state.bracket is None


async def prune_and_check(bench: Bench) -> None:
    before = await bench.read("s")
    after = await prune(before, bench.tools)
    assert len(after.nodes) == len(before.nodes)
    pruned = sum(a != b for a, b in zip(before.nodes, after.nodes, strict=True))
    assert after.generation == before.generation + pruned
    assert (after.tokens.surface < before.tokens.surface) is bool(pruned)
    assert await prune(after, bench.tools) is after, "what was pruned is not pruned again"


async def compact_and_check(agent: Agent, how: str, retain: int) -> None:
    bench = agent.bench
    before = await bench.read("s")
    bench.summarizer = Summarizing(partial(_meanwhile, agent, how))
    try:
        outcome = await bench.compact(retain)
    except NothingToCompactError:
        assert (await bench.read("s")).as_of_seq == before.as_of_seq
        return
    except CompactionFailedError as error:
        failed = (how, error.failure, (await bench.read("s")).nodes)
        event(how)
        check_in_vain(failed, before.nodes)
        return
    event(f"{how}: {len(outcome.shadowed) > 1}")
    after = await bench.read("s")
    count = len(outcome.shadowed)
    assert before.nodes[:count] == outcome.shadowed
    said = 1 if how == "compact while it talks" and not agent.open_calls else 0
    behind = after.nodes[: len(after.nodes) - said]
    assert behind == (outcome.checkpoint_seq, *before.nodes[count:])
    tail = len(before.nodes) - count
    assert after.messages[1 : 1 + tail] == before.messages[len(before.messages) - tail :]
    assert sum(after.prices[: len(behind)]) < before.tokens.surface
    by_seq = {event["seq"]: event for event in bench.log()}
    start, summary, *cited = list_member(by_seq[after.nodes[0]], "sourceEventSeqs")
    kinds = [by_seq[seq]["type"] for seq in (start, summary)]
    assert kinds == ["compaction/start", "compaction/summary"]
    assert cited == list(outcome.shadowed)
    assert missing_sections(checkpoint_text(after.messages[0])) == ()


def check_in_vain(failed: tuple[object, ...], nodes: tuple[int, ...]) -> None:
    assert failed == ("compact in vain", "summary", nodes)


async def _meanwhile(agent: Agent, how: str, _request: SummaryRequest) -> None:
    if how == "compact in vain":
        raise SummaryError("blank")
    if how == "compact while it talks" and not agent.open_calls:
        agent.talk(40)


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
