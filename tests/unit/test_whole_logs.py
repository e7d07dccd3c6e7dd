"""Closers, loading, invariants, forks and views of whole logs, by example (SEMANTICS 3, 8, 10)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.logs import Log, call_block, replace, text_block

from surfacelog.projections.agent_loop import AgentLoop
from surfacelog.projections.closers import crash_closers, turn_closers
from surfacelog.projections.compaction_invariants import check_compaction_invariants
from surfacelog.projections.event_text import event_text
from surfacelog.projections.fork_boundary import ForkBoundaryError, ForkOpenTurnError, fork_prefix
from surfacelog.projections.invariants import InvariantError
from surfacelog.projections.loading import load_log
from surfacelog.projections.seed import check_seed, end_seed, needs_end_seed
from surfacelog.projections.session_invariants import check_session_invariants
from surfacelog.projections.session_title import session_title
from surfacelog.projections.token_views import ContextBreakdown, ContextPressure, TokenUsage
from surfacelog.projections.transcript import transcript
from surfacelog.schemas.errors import AdmissionError, CorruptLogError, UnsupportedLogError

HEADER: Any = {"version": 0, "id": "s", "createdAt": 1}


def crashed() -> Log:
    """A turn in which one call was started, one was not, and one was answered."""
    log = Log()
    log.start()
    log.assistant(call_block("a"), call_block("b"), call_block("c"))
    log.call("a")
    log.call("c")
    log.result("c")
    return log


def test_a_crashed_turn_is_closed_call_by_call() -> None:
    log = crashed()
    closers: list[Any] = crash_closers(log.events)
    kinds = [event["type"] for event in closers]
    assert kinds == ["tool/result", "tool/result", "step/end", "turn/end"]
    assert [event["seq"] for event in closers] == [6, 7, 8, 9]
    assert {event["time"] for event in closers} == {log.events[-1]["time"]}
    assert closers[0]["data"]["error"]["code"] == "TOOL_OUTCOME_UNKNOWN"
    assert closers[0]["sourceEventSeqs"] == [3]
    assert closers[1]["data"]["error"]["code"] == "TOOL_NOT_STARTED"
    assert "sourceEventSeqs" not in closers[1]
    assert closers[1]["data"]["message"]["id"] == "interrupted-tool-result-b-7"
    assert closers[3]["data"]["reason"] == {"kind": "interrupted"}


@pytest.mark.parametrize(
    ("turn", "step", "closed"),
    [
        ({}, {}, [{}, {"reason": {"kind": "interrupted"}}]),
        ({"turn": 1}, 7, [{"turn": 1}, {"turn": 1, "reason": {"kind": "interrupted"}}]),
        ({"turn": 1}, {"step": None}, [{"turn": 1, "reason": {"kind": "interrupted"}}]),
        ({"turn": None}, {"step": 1}, []),
    ],
)
def test_a_place_without_a_number_is_closed_without_one(turn: Any, step: Any, closed: Any) -> None:
    log = Log()
    log.add("turn/start", turn)
    log.add("step/start", step)
    assert [event["data"] for event in crash_closers(log.events)] == closed
    loop = AgentLoop()
    for event in log.events:
        loop.advance(event, event["seq"], live=False)
    again = AgentLoop.from_json(loop.to_json()).open_turn()
    closers = [] if again is None else turn_closers(again, 2, 9)
    assert [event["data"] for event in closers] == closed


def test_content_that_is_a_text_has_no_calls() -> None:
    log = Log()
    log.start()
    log.assistant()
    log.events[-1]["data"]["message"]["content"] = "append"
    assert [event["type"] for event in crash_closers(log.events)] == ["step/end", "turn/end"]


def test_closers_have_the_last_events_time_or_none() -> None:
    log = Log()
    log.start()
    del log.events[-1]["time"]
    assert all("time" not in event for event in crash_closers(log.events))
    log.events[-1]["time"] = None
    assert all(event["time"] is None for event in crash_closers(log.events))


@pytest.mark.parametrize("last", ["x", [], {"type": "hook/result", "seq": "9"}])
def test_closers_behind_what_has_no_seq_have_none(last: Any) -> None:
    log = Log()
    log.start()
    closers: list[Any] = crash_closers([*log.events, last])
    assert [str(event["seq"]) for event in closers] == ["nan", "nan"]
    with pytest.raises((CorruptLogError, UnsupportedLogError)):
        load_log(HEADER, [*log.events, last])


def test_a_closed_log_loads_without_closers_and_passes_the_invariants() -> None:
    log = crashed()
    loaded = load_log(HEADER, log.events)
    whole = [*loaded.events, *loaded.closers]
    assert load_log(HEADER, whole).closers == []
    check_session_invariants(whole)


def test_an_ended_or_empty_log_needs_no_closers() -> None:
    log = Log()
    log.start()
    log.end()
    assert crash_closers(log.events) == []
    assert crash_closers([]) == []


def test_loading_tells_unsupported_from_corrupt() -> None:
    log = crashed()
    log.add("novel/type", {})
    with pytest.raises(UnsupportedLogError):
        load_log(HEADER, log.events)
    for version in (1, -1, 0.5, "0", None, True):
        with pytest.raises(UnsupportedLogError):
            load_log({**HEADER, "version": version}, [None])
    with pytest.raises(UnsupportedLogError):
        load_log({"id": "s", "createdAt": 1}, log.events)
    with pytest.raises(CorruptLogError):
        load_log(HEADER, [None])
    log.events[-1]["ignorable"] = True
    load_log(HEADER, log.events)
    log.events[0]["seq"] = 5
    with pytest.raises(CorruptLogError):
        load_log(HEADER, log.events)


def test_a_seed_names_the_event_that_may_not_stand() -> None:
    log = crashed()
    log.events[3]["data"]["number"] = -0.0
    with pytest.raises(AdmissionError) as caught:
        check_seed(log.events)
    assert caught.value.event_index == 3
    check_seed(log.events, lossless=False)


def test_a_seed_is_marked_once() -> None:
    assert needs_end_seed([])
    assert not needs_end_seed([end_seed(0, 1)])


def broken(change: Any) -> Any:
    log = crashed()
    change(log)
    with pytest.raises(InvariantError) as caught:
        check_session_invariants(log.events)
    return caught.value.seq


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.add("turn/start", {"turn": 2}),
        lambda log: log.add("turn/end", {"turn": 1}),
        lambda log: log.add("step/start", {"turn": 1, "step": 2}),
        lambda log: log.chunk({}, step=2),
        lambda log: log.result("b"),
        lambda log: log.add("step/end", {"turn": 1}),
        lambda log: log.add("step/end", None),
        lambda log: log.add("tool/result", {"turn": 1, "step": 1}, surfaceOp="append"),
    ],
)
def test_a_relation_that_does_not_hold_is_found_where_it_breaks(change: Any) -> None:
    assert broken(change) == 6


@pytest.mark.parametrize("seq", [5, -1, None, True])
def test_seqs_increase_and_null_counts_as_nothing(seq: Any) -> None:
    log = crashed()
    log.add("hook/result", {})
    log.events[-1]["seq"] = seq
    with pytest.raises(InvariantError):
        check_session_invariants(log.events)


def test_relations_that_hold() -> None:
    log = crashed()
    log.result("a")
    result = log.events[log.result("b")]
    result["data"]["error"] = {"code": "TOOL_NOT_STARTED"}
    result["data"]["message"]["content"][0]["isError"] = True
    log.end()
    log.user()
    log.start(2)
    log.result("c", turn=9, **replace(5, 5, [5]))
    check_session_invariants(log.events)
    with pytest.raises(InvariantError):
        check_session_invariants([*log.events, {**log.events[-1]}])
    with pytest.raises(InvariantError):
        check_session_invariants([*log.events, "text"], live=True)


def bracket(*, end: Any = None, summary: Any = None, **start: Any) -> Log:
    log = Log()
    log.user()
    ids = {"compactionId": "k"}
    log.add("compaction/start", {**ids, "turn": None, **start})
    shadowed: Any = {"shadowedRange": {"start": 0, "end": 0}, "shadowedSeqs": [0]}
    data = {**ids, **shadowed, "shadowedTokenCount": 1, **(summary or {})}
    log.add("compaction/summary", data)
    log.user(**replace(0, 0, [0]))
    log.events[3]["data"]["source"] = {"kind": "plugin", "plugin": "compact", **ids}
    log.add("compaction/end", {**ids, "turn": None, **(end or {})})
    return log


def test_a_whole_bracket_passes() -> None:
    check_compaction_invariants(bracket().events)


@pytest.mark.parametrize(
    ("changes", "seq"),
    [
        ({"turn": 1}, 1),
        ({"compactionId": ""}, 1),
        ({"sourceCommandId": "x"}, 2),
        ({"summary": {"shadowedRange": {"start": 0, "end": 1}}}, 2),
        ({"summary": {"shadowedSeqs": []}}, 2),
        ({"summary": {"shadowedTokenCount": -1}}, 2),
        ({"summary": {"compactionId": "other"}}, 2),
        ({"end": {"turn": 1}}, 4),
        ({"end": {"compactionId": "other"}}, 4),
    ],
)
def test_a_bracket_that_does_not_match_is_found(changes: Any, seq: int) -> None:
    with pytest.raises(InvariantError) as caught:
        check_compaction_invariants(bracket(**changes).events)
    assert caught.value.seq == seq


def test_a_turn_crosses_a_bracket_only_when_the_bracket_is_stale() -> None:
    log = Log()
    log.add("compaction/start", {"compactionId": "k", "turn": None})
    log.add("turn/start", {"turn": 1})
    with pytest.raises(InvariantError):
        check_compaction_invariants(log.events)
    log.add("session/end-seed", {})
    check_compaction_invariants(log.events)
    with pytest.raises(InvariantError):
        check_compaction_invariants(log.events, live=True)


def test_an_end_without_summary_needs_an_error() -> None:
    log = Log()
    log.add("compaction/start", {"compactionId": "k", "turn": None})
    log.add("compaction/end", {"compactionId": "k", "turn": None})
    with pytest.raises(InvariantError):
        check_compaction_invariants(log.events)
    log.events[-1]["data"]["error"] = ""
    check_compaction_invariants(log.events)


def test_a_fork_stands_where_a_turn_has_ended() -> None:
    log = crashed()
    with pytest.raises(ForkOpenTurnError):
        fork_prefix(log.events)
    log.end()
    assert fork_prefix(log.events) == log.events
    assert fork_prefix([]) == []
    for boundary in (-1, len(log.events), 1.5, "1"):
        with pytest.raises(ForkBoundaryError):
            fork_prefix(log.events, boundary)
    with pytest.raises(ForkBoundaryError):
        fork_prefix([], 0)


def test_the_transcript_keeps_what_was_shadowed() -> None:
    log = Log()
    log.user("seen")
    log.user("checkpoint", **replace(0, 0, [0]))
    assert transcript(log.events) == log.events[:1]


def folded(view: Any, log: Log) -> Any:
    for event in log.events:
        view.apply(event)
    return view


def test_usage_counts_a_step_once() -> None:
    log = Log()
    usage = {"inputTokens": 10, "outputTokens": 1, "cacheReadTokens": 5}
    log.chunk({"type": "usage", "usage": usage})
    log.assistant(usage={**usage, "outputTokens": 3})
    log.assistant(usage=usage, step=2)
    assert folded(TokenUsage(), log).view() == {
        "uncachedInputTokens": 20,
        "outputTokens": 4,
        "cacheReadTokens": 10,
        "cacheWriteTokens": 0,
    }


def test_pressure_moves_with_the_surface() -> None:
    log = Log()
    log.user("x" * 400)  # 108 tokens
    log.add("request/context", {"provider": "p", "model": "m", "contextWindow": 1000})
    log.assistant(text_block("abcd"), usage={"inputTokens": 200, "outputTokens": 9})
    price = {"shadowedRange": {"start": 0, "end": 0}, "shadowedTokenCount": 108}
    log.add("compaction/prune", price)
    log.user("abcd", **replace(0, 0, [0]))
    assert folded(ContextPressure(), log).view() == {
        "pressureTokens": 200,
        "projectedTokens": 200 + 9 - 108 + 9,
        "contextWindow": 1000,
    }
    assert folded(ContextBreakdown(), log).view()["messageTokens"] == 18


def test_pressure_needs_the_input_counts_alone() -> None:
    log = Log()
    log.chunk({"type": "usage", "usage": {"inputTokens": 20, "cacheReadTokens": 5}})
    assert folded(ContextPressure(), log).view() == {"pressureTokens": 25, "projectedTokens": 25}
    with pytest.raises(CorruptLogError):
        folded(TokenUsage(), log).view()


def test_a_span_without_a_price_makes_no_projection() -> None:
    log = Log()
    log.user()
    log.assistant(usage={"inputTokens": 1, "outputTokens": 1})
    log.add("compaction/prune", {"shadowedRange": {"start": 0, "end": 0}})
    log.user(**replace(0, 0, [0]))
    with pytest.raises(CorruptLogError):
        folded(ContextPressure(), log).view()


def test_a_sample_without_a_step_is_a_sample_of_its_own() -> None:
    log = Log()
    usage = {"inputTokens": 10, "outputTokens": 1}
    for step in (1, None, 1):
        log.assistant(usage=usage)
        log.events[-1]["data"] |= {"step": step}
    del log.events[1]["data"]["step"]
    assert folded(TokenUsage(), log).view()["outputTokens"] == 3


@pytest.mark.parametrize("usage", ["x", 5, [], {}, {"inputTokens": "1", "outputTokens": 1}])
def test_usage_that_cannot_be_counted_is_refused_by_the_view(usage: Any) -> None:
    log = Log()
    log.assistant(usage=usage)
    view = folded(TokenUsage(), log)
    with pytest.raises(CorruptLogError):
        view.view()


def test_a_window_that_is_null_is_no_window() -> None:
    log = Log()
    log.add("request/context", {"provider": "p", "model": "m"})
    assert folded(ContextPressure(), log).view() == {}
    log.add("request/context", {"contextWindow": None})
    with pytest.raises(CorruptLogError):
        folded(ContextPressure(), log).view()


@pytest.mark.parametrize("data", [None, {}, {"header": None}, {"header": {"tools": None}}])
def test_the_breakdown_refuses_what_is_no_header(data: Any) -> None:
    log = Log()
    log.add("request/header", data)
    with pytest.raises(CorruptLogError):
        folded(ContextBreakdown(), log)


def test_a_price_for_another_span_is_an_error() -> None:
    log = Log()
    log.user()
    log.add("compaction/prune", {"shadowedRange": {"start": 0, "end": 1}, "shadowedTokenCount": 1})
    log.user(**replace(0, 0, [0]))
    with pytest.raises(CorruptLogError):
        folded(ContextBreakdown(), log)


def test_the_last_title_wins() -> None:
    log = Log()
    assert session_title(log.events) is None
    for title in ("one", "two"):
        log.add("session/title", {"title": title, "messageSeqs": [0], "source": {"kind": "user"}})
    found = session_title(log.events)
    assert found is not None
    assert (found.title, found.seq) == ("two", 1)
    log.add("session/title", {"title": "bad"})
    with pytest.raises(CorruptLogError):
        session_title(log.events)


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("tool/call", {"name": "bash", "arguments": " {} "}, "bash\n{}"),
        ("todo/write", {"todos": [{"content": "a", "status": "done"}]}, "done\na"),
        ("turn/end", {"reason": {"kind": "error", "error": {"message": "x"}}}, "error\nx"),
        ("turn/end", {"reason": {"kind": "interrupted"}}, "interrupted"),
        ("turn/end", {"reason": {"kind": "completed"}}, ""),
        ("assistant/chunk", {"chunk": {"text": "x"}}, ""),
    ],
)
def test_events_say_their_text(kind: str, data: Any, text: str) -> None:
    assert event_text({"type": kind, "data": data}) == text


def test_a_message_says_its_blocks_but_not_its_reasoning() -> None:
    log = Log()
    log.assistant(text_block("\ufeff a \x1c"), {"type": "reasoning", "text": "r"}, call_block("c"))
    log.result("c", "out")
    log.events[1]["data"]["error"] = {"name": "E", "code": "C"}
    assert event_text(log.events[0]) == "a \x1c\nbash\n{}"
    assert event_text(log.events[1]) == "out\nE\nC"
    with pytest.raises(CorruptLogError):
        event_text({"type": "user/message", "data": {"content": [{"type": "text"}]}})
