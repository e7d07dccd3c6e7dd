"""The Surface fold, by example (SEMANTICS 3)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.logs import Log, replace

from surfacelog.projections.surface import fold_surface
from surfacelog.projections.trace import LogTrace
from surfacelog.schemas.errors import AdmissionError, NotFoundError


def refusal(events: list[Any]) -> str:
    with pytest.raises(AdmissionError) as caught:
        fold_surface(events)
    return caught.value.refusal


def three_users() -> Log:
    log = Log()
    for text in ("a", "b", "c"):
        log.user(text)
    return log


def test_a_replacement_takes_the_place_of_its_span() -> None:
    log = three_users()
    checkpoint = log.user("a and b", **replace(0, 1, [0, 1]))
    fold = fold_surface(log.events)
    assert fold.nodes == [checkpoint, 2]
    assert fold.generation == 1
    assert fold.replacements[0].shadowed == (0, 1)


def test_a_span_is_by_position_so_its_start_may_be_the_greater_seq() -> None:
    log = three_users()
    checkpoint = log.user("a", **replace(0, 0, [0]))
    log.user("a to c", **replace(checkpoint, 2, [checkpoint, 1, 2]))
    assert fold_surface(log.events).nodes == [4]


def test_log_only_events_leave_the_surface_alone() -> None:
    log = three_users()
    log.add("session/title", {})
    assert fold_surface(log.events).nodes == [0, 1, 2]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (replace(1, 0, [0, 1]), "surface.span"),
        (replace(0, 9, [0]), "surface.span"),
        (replace(0, 1, [0]), "surface.sources"),
        (replace(0, 0, [0, 3]), "surface.sources"),
        ({"sourceEventSeqs": [7]}, "surface.sources"),
        ({"surfaceOp": "prepend"}, "surface.op"),
        ({"seq": 8}, "malformed"),
        ({"seq": True}, "malformed"),
    ],
)
def test_what_breaks_a_rule_is_refused(more: Any, code: str) -> None:
    log = three_users()
    log.user("x")
    log.events[-1] = {**log.events[-1], **more}
    assert refusal(log.events) == code


def test_a_refused_event_changes_nothing() -> None:
    log = three_users()
    fold = fold_surface(log.events)
    with pytest.raises(AdmissionError):
        fold.apply({**log.events[0], "seq": 3, **replace(0, 1, [0])})
    assert (fold.nodes, fold.generation, fold.next_seq) == ([0, 1, 2], 0, 3)


def test_a_tool_result_may_change_its_content_and_nothing_else() -> None:
    log = Log()
    log.result("c1", "long")
    log.result("c1", "short", **replace(0, 0, [0]))
    log.events[1]["data"]["message"]["id"] = log.events[0]["data"]["message"]["id"]
    assert fold_surface(log.events).nodes == [1]
    log.events[1]["data"]["step"] = 2
    assert refusal(log.events) == "surface.tool_result"


def test_true_is_not_one_when_a_tool_result_is_rewritten() -> None:
    log = Log()
    log.result("c1")
    log.result("c1", **replace(0, 0, [0]))
    log.events[0]["data"]["meta"] = 1
    log.events[1]["data"]["meta"] = 1.0
    assert fold_surface(log.events).nodes == [1]
    log.events[1]["data"]["meta"] = True
    assert refusal(log.events) == "surface.tool_result"


def test_a_tool_result_replaces_one_tool_result() -> None:
    log = Log()
    log.user("a")
    log.result("c1")
    log.result("c1", **replace(0, 1, [0, 1]))
    assert refusal(log.events) == "surface.tool_result"
    log.events[2] |= replace(0, 0, [0])
    assert refusal(log.events) == "surface.tool_result"


def test_a_trace_leads_from_what_was_shadowed_to_what_stands_there() -> None:
    log = three_users()
    first = log.user("a, b", **replace(0, 1, [0, 1]))
    second = log.user("a, b, c", **replace(first, 2, [first, 2]))
    trace = LogTrace(log.events)
    assert trace.event(0).replacement_chain == (first, second)
    assert trace.event(0).replaced_by == first
    assert trace.event(0).derived == (first,)
    assert trace.event(second).replaced == (first, 2)
    assert [trace.standing(seq) for seq in range(5)] == ["shadowed"] * 4 + ["current"]
    with pytest.raises(NotFoundError):
        trace.event(5)
