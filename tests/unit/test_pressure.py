"""The decision to ask for a compaction, as a function of what the log says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.live_session import compaction_end, event, run, step_end, user

from surfacelog.projections.compaction_policy import PolicyError, policies
from surfacelog.projections.pressure import (
    Asked,
    Attempt,
    Later,
    Load,
    NoProgress,
    Pending,
    PressureFacts,
    PressureTrigger,
    backoff_ms,
    settles,
)
from surfacelog.schemas.records import EventBatch, Item

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject

TRIGGER = PressureTrigger(policies({}), backoff_seconds=10)
FACTS = PressureFacts(provider="p", model="m", window=1000)
FULL = Load(total=800, surface=700, header=100, generation=3)
NOW = 1_700_000_000_000


def asked(generation: int, number: int, at: int = NOW, unlogged: int = 0) -> Asked:
    return Asked(Attempt(generation, number), at, unlogged)


def pending(request_id: str, again: int = NOW + 10_000, *, overdue: bool = False) -> Pending:
    return Pending(request_id, overdue, again)


def test_the_threshold_itself_is_pressure_and_the_id_follows_from_the_log() -> None:
    decision = TRIGGER.decide(FACTS, FULL, None, NOW)

    assert decision == asked(3, 0)
    assert isinstance(decision, Asked)
    assert decision.attempt.request_id == "pressure-3-0"
    assert Asked.from_text(decision.to_text()) == decision
    assert TRIGGER.decide(FACTS, replace(FULL, total=799), None, NOW) is None


@pytest.mark.parametrize(
    ("facts", "load"),
    [
        (FACTS, replace(FULL, busy=True)),
        (FACTS, replace(FULL, total=None)),
        (replace(FACTS, window=None), FULL),
    ],
    ids=["compacting or loading", "no measurement", "no window"],
)
def test_nothing_is_asked_where_nothing_can_be_said(facts: PressureFacts, load: Load) -> None:
    assert TRIGGER.decide(facts, load, None, NOW) is None


def test_one_generation_is_asked_for_once_and_the_next_one_again() -> None:
    assert TRIGGER.decide(FACTS, FULL, asked(3, 0), NOW) == pending("pressure-3-0")
    assert TRIGGER.decide(FACTS, FULL, asked(2, 0), NOW) == asked(3, 0)


def test_a_failure_is_asked_for_again_after_a_pause_that_doubles() -> None:
    once = FACTS.after(end(error="no", time=NOW))
    twice = once.after(end(error="no", time=NOW + 15_000))
    due = NOW + 10_000

    assert TRIGGER.decide(once, FULL, asked(3, 0), due - 1) == Later(due)
    assert TRIGGER.decide(once, FULL, asked(3, 0), due) == asked(3, 1, due)
    last = asked(3, 1, due)
    assert TRIGGER.decide(once, FULL, last, due) == pending("pressure-3-1", due + 10_000)
    assert TRIGGER.decide(twice, FULL, asked(3, 1), NOW + 15_000) == Later(NOW + 35_000)
    assert twice.after(end()) == FACTS
    assert [backoff_ms(10, n) for n in (0, 1, 2, 3, 99)] == [0, 10_000, 20_000, 40_000, 600_000]


def test_an_outcome_that_left_no_trace_in_the_log_is_no_reason_to_give_up() -> None:
    due = NOW + 10_000

    def decide(before: Asked, now: int) -> object:
        return TRIGGER.decide(FACTS, FULL, before, now, is_over=True)

    assert decide(asked(3, 0), due - 1) == Later(due)
    again = asked(3, 1, due, unlogged=1)
    assert decide(asked(3, 0), due) == again
    assert TRIGGER.decide(FACTS, FULL, again, due) == pending("pressure-3-1", due + 20_000)
    assert decide(again, due) == Later(due + 20_000)
    failed = FACTS.after(end(error="no", time=NOW))
    assert TRIGGER.decide(failed, FULL, again, due) == asked(3, 2, due, unlogged=1)


def test_a_request_whose_outcome_may_be_lost_is_looked_after_less_and_less_often() -> None:
    last = asked(3, 0)

    def decide(seconds: int) -> object:
        return TRIGGER.decide(FACTS, FULL, last, NOW + seconds * 1000)

    assert TRIGGER.overdue_at(last) == NOW + 10_000
    assert decide(9) == pending("pressure-3-0")
    for seconds in (10, 20, 600):
        again = NOW + 2 * seconds * 1000
        assert decide(seconds) == pending("pressure-3-0", again, overdue=True)
    assert decide(5000) == pending("pressure-3-0", NOW + 5_600_000, overdue=True)


def end(*, error: str | None = None, time: int = NOW) -> JsonObject:
    event = compaction_end() if error is None else compaction_end(error=error)
    return {**event, "time": time}


def test_the_breaker_stands_until_the_envelope_the_generation_or_the_tail_changes() -> None:
    stopped = replace(FACTS, no_progress=NoProgress(as_of_seq=9, generation=3, surface=700))

    def decide(load: Load) -> object:
        return TRIGGER.decide(stopped, load, None, NOW)

    assert decide(FULL) is None
    assert decide(replace(FULL, surface=700 + 159)) is None, "less than the tail that stays"
    assert decide(replace(FULL, surface=700 + 160)) == asked(3, 0)
    assert decide(replace(FULL, generation=4)) == asked(4, 0)
    assert decide(replace(FULL, surface=5000, header=800)) is None, "no new node can help"


def header(system: str, seq: int) -> JsonObject:
    value: JsonObject = {"config": {"provider": "p", "model": "m"}, "system": system}
    return {**event("request/header", {"header": value, "reason": "change"}), "seq": seq}


def context(tokens: int, seq: int) -> JsonObject:
    data: JsonObject = {"provider": "p", "model": "m", "contextWindow": tokens}
    return {**event("request/context", data), "seq": seq}


def no_progress(as_of: int, seq: int) -> JsonObject:
    data: JsonObject = {"asOfSeq": as_of, "generation": 0, "surfaceTokens": 7}
    return {**event("surfacelog/no-progress", data, ignorable=True), "seq": seq}


def test_facts_are_folded_from_the_log_and_go_through_json() -> None:
    facts = PressureFacts().after(header("a", 1)).after(context(1000, 2))

    assert (facts.provider, facts.model, facts.window, facts.envelope_seq) == ("p", "m", 1000, 2)
    stopped = facts.after(no_progress(as_of=2, seq=3))
    assert stopped.no_progress == NoProgress(2, 0, 7)
    assert stopped.concluded == 1, "whoever asks again after a change asks with another id"
    assert PressureFacts.from_json(stopped.to_json()) == stopped
    same = stopped.after(header("a", 4)).after(context(1000, 5)).after(user())
    assert same is stopped, "the same header and window again are no change"
    assert stopped.after(header("b", 4)).no_progress is None
    assert stopped.after(context(2000, 4)).no_progress is None


def test_a_breaker_that_was_released_before_the_change_that_could_help_does_not_stand() -> None:
    changed = PressureFacts().after(context(1000, 5))

    assert changed.after(no_progress(as_of=4, seq=6)).no_progress is None
    assert changed.after(no_progress(as_of=5, seq=6)).no_progress is not None


def test_the_pressure_trigger_can_be_off_and_a_policy_without_room_is_an_error() -> None:
    off = PressureTrigger(policies({"auto": False}), backoff_seconds=10)
    assert off.decide(FACTS, FULL, None, NOW) is None

    crowded = PressureTrigger(policies({"retain_tokens": 800}), backoff_seconds=10)
    with pytest.raises(PolicyError, match="nothing could be compacted"):
        crowded.decide(FACTS, FULL, None, NOW)


@pytest.mark.parametrize(
    ("items", "settled"),
    [
        ((step_end(),), True),
        ((run("a", "b"), step_end()), True),
        ((compaction_end(error="no"),), True),
        ((compaction_end(),), False),
        ((run("a", "b"), user()), False),
    ],
)
def test_a_step_and_a_failed_compaction_settle_something(
    items: tuple[Item, ...], settled: bool
) -> None:
    batch = EventBatch("s", 0, "w", 0, "owner", 1, 0, b"", b"", items)

    assert settles(batch) is settled
