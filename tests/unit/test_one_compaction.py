from __future__ import annotations

import asyncio

import pytest
from tests.compaction_bench import Bench, Summarizing, checkpoints, ends
from tests.live_session import (
    admitted,
    assistant,
    call,
    compaction_end,
    compaction_start,
    result,
    span,
    step_end,
    step_start,
    turn_end,
    turn_start,
    user,
)

from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.processors.compactor.takeover import end_orphan
from surfacelog.processors.summarizers.protocol import Summary, SummaryError, SummaryRequest
from surfacelog.projections.compaction_plan import NothingToCompactError
from surfacelog.projections.conservation import nodes_digest
from surfacelog.projections.messages import message_of
from surfacelog.schemas.json_value import member
from surfacelog.schemas.records import AppendRequest, SeqRange

LONG = "word " * 400


@pytest.fixture
def bench() -> Bench:
    """A session with one long turn of two steps: a call with its result, then an answer."""
    bench = Bench()
    admitted(bench.session.owner(turn_start(), step_start(), user(LONG), assistant("c1")))
    admitted(bench.session.owner(call("c1"), result("c1", LONG), step_end()))
    admitted(bench.session.owner(step_start(2), assistant(step=2), step_end(2), turn_end()))
    return bench


async def test_a_compaction_lands_in_one_append_in_this_order(bench: Bench) -> None:
    nodes_before = bench.fold().nodes
    outcome = await bench.compact()

    start, published = bench.session.log[-2:]
    assert [item["type"] for item in start.items if isinstance(item, dict)] == ["compaction/start"]
    summary, checkpoint, receipt, end = (i for i in published.items if isinstance(i, dict))
    assert [summary["type"], checkpoint["type"], receipt["type"], end["type"]] == [
        "compaction/summary",
        "user/message",
        "surfacelog/compaction-receipt",
        "compaction/end",
    ]
    assert receipt["ignorable"] is True
    assert checkpoint["sourceEventSeqs"] == [start.first_seq, -1, *nodes_before[:-1]]
    assert outcome.status == "compacted"
    assert outcome.checkpoint_seq == published.first_seq + 1
    assert bench.fold().nodes == [published.first_seq + 1, nodes_before[-1]]
    assert outcome.shadowed == tuple(nodes_before[:-1])


async def test_the_receipt_can_be_computed_again_from_the_log(bench: Bench) -> None:
    by_seq = {event["seq"]: event for event in bench.log()}
    nodes = [(seq, message_of(by_seq[seq])) for seq in bench.fold().nodes]
    before = await bench.read("s")

    outcome = await bench.compact(request_id="r-1")

    after = await bench.read("s")
    (receipt,) = (e["data"] for e in bench.log() if str(e["type"]).startswith("surfacelog/"))
    assert member(receipt, "requestId") == "r-1"
    assert member(receipt, "shadowedDigest") == nodes_digest(nodes[:-1])
    assert member(receipt, "tailDigestBefore") == nodes_digest(nodes[-1:])
    assert member(receipt, "tailDigestAfter") == nodes_digest(nodes[-1:])
    assert member(receipt, "tokensBefore") == before.tokens.surface == outcome.tokens_before
    assert member(receipt, "tokensAfter") == after.tokens.surface == outcome.tokens_after
    assert after.tokens.surface < before.tokens.surface


async def test_what_others_append_meanwhile_stays_behind_the_checkpoint(bench: Bench) -> None:
    async def meanwhile(_request: SummaryRequest) -> None:
        admitted(bench.session.owner(turn_start(2), step_start(turn=2), user("more")))

    bench.summarizer = Summarizing(meanwhile)
    tail = bench.fold().nodes[-1]

    outcome = await bench.compact()

    more = bench.fold().nodes[-1]
    assert bench.fold().nodes == [outcome.checkpoint_seq, tail, more]
    assert ends(bench) == [(None, None)]


async def test_a_compaction_inside_a_turn_names_it_and_keeps_open_calls(bench: Bench) -> None:
    admitted(bench.session.owner(turn_start(2), step_start(turn=2), assistant("c2", turn=2)))
    kept = bench.fold().nodes[-1]

    outcome = await bench.compact()

    data = [
        e["data"] for e in bench.log() if str(e["type"]) in ("compaction/start", "compaction/end")
    ]
    assert [member(d, "turn") for d in data] == [2, 2]
    assert bench.fold().nodes == [outcome.checkpoint_seq, kept]


async def test_a_second_compaction_merges_the_first_checkpoint(bench: Bench) -> None:
    first = await bench.compact()
    admitted(bench.session.owner(user(LONG)))
    second = await bench.compact(retain=1)

    assert second.shadowed[0] == first.checkpoint_seq
    assert checkpoints(bench) == [second.compaction_id]


async def test_a_checkpoint_alone_is_not_compacted_again(bench: Bench) -> None:
    await bench.compact()

    with pytest.raises(NothingToCompactError, match="checkpoint already"):
        await bench.compact()


async def test_nothing_is_written_when_nothing_would_be_gained() -> None:
    bench = Bench()
    admitted(bench.session.owner(user("hi"), user("ho")))

    with pytest.raises(NothingToCompactError, match="nothing would be gained"):
        await bench.compact()
    with pytest.raises(NothingToCompactError, match="not on the surface"):
        await bench.compact(wanted=SeqRange(0, 99))
    with pytest.raises(NothingToCompactError, match="last node stays"):
        await Bench().compact()

    assert bench.types() == ["user/message", "user/message"]


async def test_a_span_that_parts_a_call_from_its_result_is_refused(bench: Bench) -> None:
    user_seq, assistant_seq, _result, _last = bench.fold().nodes

    with pytest.raises(NothingToCompactError, match="parts tool calls"):
        await bench.compact(wanted=SeqRange(user_seq, assistant_seq))


async def test_a_summary_that_is_not_cheaper_fails_with_one_end(bench: Bench) -> None:
    async def verbose(_request: SummaryRequest) -> Summary:
        return Summary(({"type": "text", "text": LONG * 9},), "p", "m")

    bench.summarizer = Summarizing(verbose)
    before = bench.fold().nodes

    with pytest.raises(CompactionFailedError) as failed:
        await bench.compact()

    assert failed.value.failure == "summary"
    ((error, error_class),) = ends(bench)
    assert error_class == "summary"
    assert error is not None
    assert "the checkpoint costs" in error
    assert bench.fold().nodes == before


@pytest.mark.parametrize(
    ("raised", "failure"),
    [
        (SummaryError("blank"), "summary"),
        (NotADirectoryError("a bug"), "persistence"),
        (CompactionFailedError("cancelled", "by hand"), "cancelled"),
    ],
)
async def test_any_failure_after_the_start_leaves_one_end_with_its_class(
    bench: Bench, raised: Exception, failure: str
) -> None:
    async def fail(_request: SummaryRequest) -> Summary:
        raise raised

    bench.summarizer = Summarizing(fail)

    with pytest.raises(CompactionFailedError):
        await bench.compact()

    assert ends(bench) == [(str(raised), failure)]
    assert (await bench.read("s")).open_compaction is None


@pytest.mark.parametrize("lost", [True, False])
async def test_a_lost_lock_and_a_stop_end_the_call_and_the_bracket(
    bench: Bench, lost: bool
) -> None:
    cancelled = asyncio.Event()

    async def call_that_hangs(_request: SummaryRequest) -> Summary:
        (bench.lock.lost if lost else bench.stopping).set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    bench.summarizer = Summarizing(call_that_hangs)

    with pytest.raises(CompactionFailedError) as failed:
        await bench.compact()

    assert cancelled.is_set()
    assert failed.value.repeat
    assert [error_class for _, error_class in ends(bench)] == ["cancelled"]
    assert checkpoints(bench) == []


async def test_a_lock_lost_right_before_publishing_publishes_nothing(bench: Bench) -> None:
    async def lose(_request: SummaryRequest) -> None:
        bench.lock.lost.set()

    bench.summarizer = Summarizing(lose)

    with pytest.raises(CompactionFailedError):
        await bench.compact()

    assert "compaction/summary" not in bench.types()


async def test_the_span_is_chosen_anew_when_the_surface_changed_before_the_start(
    bench: Bench,
) -> None:
    first, *_ = bench.fold().nodes
    replaced = [user("short", op=span(first, first), sourceEventSeqs=[first])]

    def replace_once(_request: AppendRequest) -> None:
        if replaced:
            admitted(bench.session.owner(replaced.pop()))

    bench.before_send = replace_once

    outcome = await bench.compact()

    assert outcome.status == "compacted"
    assert first not in outcome.shadowed
    assert bench.types().count("compaction/start") == 1


async def test_a_bracket_of_someone_else_is_busy(bench: Bench) -> None:
    admitted(bench.session.compactor(compaction_start("theirs")))

    with pytest.raises(CompactionFailedError) as failed:
        await bench.compact()

    assert failed.value.failure == "busy"
    assert bench.types().count("compaction/end") == 0


async def test_an_orphan_is_ended_and_its_worker_can_never_land(bench: Bench) -> None:
    async def taken_over(_request: SummaryRequest) -> None:
        await end_orphan(await bench.read("s"), bench.tools)

    bench.summarizer = Summarizing(taken_over)

    with pytest.raises(CompactionFailedError) as failed:
        await bench.compact()

    assert failed.value.failure == "orphaned"
    assert [error_class for _, error_class in ends(bench)] == ["orphaned"]
    assert checkpoints(bench) == []
    assert (await bench.read("s")).open_compaction is None


async def test_an_orphan_that_ended_meanwhile_is_left_alone(bench: Bench) -> None:
    admitted(bench.session.compactor(compaction_start("theirs")))
    cut = await bench.read("s")
    admitted(bench.session.compactor(compaction_end("theirs", error="done")))

    assert (await end_orphan(cut, bench.tools)).open_compaction is None
    assert bench.types().count("compaction/end") == 1
