"""Admission in its order: identity, resends, order, loading, epochs, expectations, roles."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.live_session import (
    HEADER,
    LiveSession,
    admitted,
    assistant,
    call,
    checkpoint,
    compaction_end,
    compaction_start,
    event,
    posted,
    receipt,
    refused,
    result,
    run,
    span,
    step_end,
    step_start,
    turn_end,
    turn_start,
    user,
)

from surfacelog.projections.admission import Duplicate, admit
from surfacelog.projections.writers import REMEMBERED_APPENDS
from surfacelog.schemas.records import ChunkRun, Expectation, Item, Open
from surfacelog.schemas.topics import REQUEST_RETENTION_MS

if TYPE_CHECKING:
    from surfacelog.schemas.event_types import Role
    from surfacelog.schemas.json_value import JsonObject, JsonValue


def test_ids_are_short_and_printable() -> None:
    session = LiveSession()
    request = session.request("agent", "owner", open=Open(HEADER))
    assert refused(session.ask(replace(request, session_id="a b"))) == ("malformed", None)
    assert refused(session.ask(replace(request, session_id=""))) == ("malformed", None)
    assert refused(session.ask(replace(request, writer_id="x" * 129))) == ("malformed", None)


def test_a_role_is_admitted_from_its_topic_only(session: LiveSession) -> None:
    request = session.request("agent", "owner", step_end())
    decision = admit(
        session.state, request, b"12345678", topic_role_set=frozenset({"contributor"}), now=1
    )
    assert refused(decision) == ("role", None)


@pytest.mark.parametrize("again", [False, True], ids=["next", "resent"])
def test_no_other_role_takes_the_numbers_of_a_writer(session: LiveSession, again: bool) -> None:
    forged = session.request("agent", "contributor", posted())
    forged = replace(forged, append_seq=forged.append_seq - again)
    assert refused(session.send(forged)) == ("role", None)
    admitted(session.owner(step_end()))


def test_an_append_to_no_session_is_not_found() -> None:
    session = LiveSession()
    assert refused(session.owner(turn_start())) == ("not_found", None)
    late = replace(session.request("agent", "owner", open=Open(HEADER)), append_seq=1)
    assert refused(session.ask(late)) == ("order", None)


def test_an_append_without_events_is_malformed(session: LiveSession) -> None:
    assert refused(session.owner()) == ("malformed", None)


def test_a_resend_is_a_duplicate_with_its_seqs_whatever_happened_since() -> None:
    session = LiveSession()
    opening = session.request("agent", "owner", open=Open(HEADER))
    admitted(session.send(opening))
    request = session.request("agent", "owner", turn_start(), step_start(), run("a", "b"))
    assert admitted(session.send(request)).first_seq == 0
    again = replace(request, attempt=3)
    assert session.ask(again) == Duplicate(0, 3, 1)
    admitted(session.open("other"))
    assert session.ask(again) == Duplicate(0, 3, 1)
    assert session.ask(replace(opening, attempt=1)) == Duplicate(None, None, 1)


def test_a_resend_older_than_the_last_32_has_no_seqs(session: LiveSession) -> None:
    first = session.request("agent", "owner", run("a"))
    for _ in range(REMEMBERED_APPENDS + 1):
        admitted(session.owner(run("a")))
    assert session.ask(first) == Duplicate()
    assert session.ask(replace(first, append_seq=first.append_seq + 1)) == Duplicate(4, 4, 1)


def test_a_known_append_seq_with_other_content_is_refused(session: LiveSession) -> None:
    known = session.request("agent", "owner", run("a"))
    admitted(session.send(known))
    assert refused(session.ask(replace(known, items=(run("b"),)))) == ("order", None)


@pytest.mark.parametrize(("append_seq", "code"), [(3, "order"), (-1, "malformed")])
def test_a_gap_in_append_seq_is_refused(session: LiveSession, append_seq: int, code: str) -> None:
    request = replace(session.request("agent", "owner", run("a")), append_seq=append_seq)
    assert refused(session.ask(request)) == (code, None)


def test_a_refused_append_is_not_consumed(session: LiveSession) -> None:
    wrong = session.request("agent", "owner", turn_start())
    assert refused(session.send(wrong)) == ("turn", 0)
    behind = replace(session.request("agent", "owner", run("a")), append_seq=wrong.append_seq + 1)
    assert refused(session.ask(behind)) == ("order", None)
    assert admitted(session.send(replace(wrong, attempt=1, items=(run("a"),)))).first_seq == 3


def test_a_stale_epoch_is_fenced(session: LiveSession) -> None:
    admitted(session.open("second"))
    assert refused(session.send(session.request("agent", "owner", run("a"), epoch=1))) == (
        "fenced",
        None,
    )
    assert refused(session.send(session.request("agent", "owner", run("a")))) == ("fenced", None)
    stale_worker = session.request("worker", "compactor", compaction_start(), epoch=1)
    assert refused(session.send(stale_worker)) == ("fenced", None)
    admitted(session.send(session.request("second", "owner", turn_start(2))))


def test_an_owner_that_was_forgotten_is_fenced_whatever_its_number(session: LiveSession) -> None:
    admitted(session.open("second"))
    session.now += REQUEST_RETENTION_MS + 1
    admitted(session.contributor(posted()))
    late = session.request("agent", "owner", run("a"), epoch=1)
    assert late.append_seq == 2
    assert refused(session.ask(late)) == ("fenced", None)
    # Behind an open that was refused, an owner that has no epoch yet is told which number is next.
    assert refused(session.ask(replace(late, epoch=0))) == ("order", None)


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        (Expectation(next_seq=3, generation=0, epoch=1), True),
        (Expectation(next_seq=2), False),
        (Expectation(generation=1), False),
        (Expectation(epoch=2), False),
    ],
)
def test_expectations(session: LiveSession, expect: Expectation, holds: bool) -> None:
    decision = session.owner(run("a"), expect=expect)
    if holds:
        admitted(decision)
    else:
        assert refused(decision) == ("expectation", None)


@pytest.mark.parametrize(
    ("item", "code"),
    [
        (event("made/up", None), "unsupported_type"),
        (event("request/header-delta", None), "unsupported_type"),
        ({"type": "turn/end", "time": 0.5, "data": None}, "malformed"),
        ({**user(), "seq": 3}, "malformed"),
        ({**user(), "extra": 1}, "malformed"),
        ({**posted(), "ignorable": None}, "malformed"),
        (event("surfacelog/request-sent", {}), "malformed"),
        (event("user/message", {}, surfaceOp="append"), "malformed"),
        (event("todo/write", {}, surfaceOp="append"), "surface.op"),
        (event("surfacelog/request-sent", {}, ignorable=True, surfaceOp="append"), "surface.op"),
        (user(op="prepend"), "surface.op"),
        (user(op=span(7, 2), sourceEventSeqs=[2]), "surface.span"),
        (user(op=span(7, 2), sourceEventSeqs=[1, 1]), "surface.span"),
        (user(op=span(2, 2)), "surface.sources"),
        (user(op=span(2, 2), sourceEventSeqs=[2, 2]), "surface.sources"),
        (result("c", op=span(2, 2), sourceEventSeqs=[]), "surface.sources"),
        (user(sourceEventSeqs=[]), "surface.sources"),
        (user(sourceEventSeqs=[4]), "surface.sources"),
        (user(sourceEventSeqs=[-3]), "surface.sources"),
        (user(sourceEventSeqs=[-2]), "surface.sources"),
        (user(sourceEventSeqs=[1, 1]), "surface.sources"),
        (result("c", op=span(2, 2), sourceEventSeqs=[2]), "surface.tool_result"),
        (turn_start(2), "turn"),
        (turn_end(2), "turn"),
        (turn_end(), "step"),
        (step_start(2), "step"),
        (step_end(2), "step"),
        (step_end(1, turn=2), "turn"),
        (run("a", turn=2), "turn"),
        (run("a", step=2), "step"),
        (assistant(step=2), "step"),
        (call("c", step=2), "step"),
        (event("assistant/chunk", {"turn": 1, "step": 3, "chunk": {}}), "step"),
        (result("c"), "pairing"),
        (compaction_start(), "role"),
        (receipt(), "role"),
        (checkpoint([2]), "role"),
        (event("surfacelog/no-progress", {}, ignorable=True), "role"),
        (ChunkRun(0, 1, 1, 0, "text", (), ()), "malformed"),
        (ChunkRun(0, 1, 1, 0, "text", (1,), ("a",)), "malformed"),
        (ChunkRun(0, 1, 1, 0, "text", (), ("a",), call_id="c"), "malformed"),
        (ChunkRun(0, 1, 1, 0, "tool-call", (), ("a",)), "malformed"),
    ],
)
def test_the_second_item_is_refused_by_its_rule(
    session: LiveSession, item: Item, code: str
) -> None:
    before = session.state.to_bytes() if session.state else b""
    assert refused(session.owner(event("todo/write", {"todos": []}), item)) == (code, 1)
    assert session.state is not None
    assert session.state.to_bytes() == before


@pytest.mark.parametrize("item", [turn_start(), step_start(), run("a"), event("todo/write", {})])
def test_nothing_of_the_loop_stands_outside_a_turn(item: Item) -> None:
    session = LiveSession()
    admitted(session.open())
    admitted(session.owner(turn_start(), turn_end()))
    assert refused(session.owner(item)) == ("turn", 0)


def not_started(call_id: str) -> JsonObject:
    answer = result(call_id, error="TOOL_NOT_STARTED")
    answer["data"]["message"]["content"][0]["isError"] = True  # type: ignore[index, call-overload]
    return answer


def test_results_answer_started_calls_of_unanswered_blocks(session: LiveSession) -> None:
    admitted(session.owner(assistant("c1", "c2"), call("c1")))
    assert refused(session.owner(result("c2"))) == ("pairing", 0)
    assert refused(session.owner(user())) == ("pairing", 0)
    assert refused(session.owner(step_end())) == ("pairing", 0)
    assert refused(session.owner(not_started("c3"))) == ("pairing", 0)
    assert refused(session.owner(call("c3"), result("c3"))) == ("pairing", 1)
    admitted(session.owner(result("c1"), not_started("c2"), step_end()))


@pytest.mark.parametrize("call_id", ["", None, 7])
def test_a_call_that_nothing_could_answer_is_not_admitted(
    session: LiveSession, call_id: JsonValue
) -> None:
    nameless = assistant("c1")
    nameless["data"]["message"]["content"][1]["id"] = call_id  # type: ignore[index,call-overload]  # as it was made
    assert refused(session.owner(nameless)) == ("pairing", 0)


@pytest.mark.parametrize(
    ("time", "dt"), [(2**53, ()), (2**53 - 2, (1, 1)), (0, (-(2**53), 2**53)), (-(2**60), (2**60,))]
)
def test_the_times_of_a_chunk_run_are_exact_integers(
    session: LiveSession, time: int, dt: tuple[int, ...]
) -> None:
    chunks = replace(run(*"a" * (len(dt) + 1)), time=time, dt=dt)
    assert refused(session.owner(chunks)) == ("malformed", 0)


def test_a_tool_result_is_replaced_in_its_content_alone(session: LiveSession) -> None:
    admitted(session.owner(assistant("c1"), call("c1"), result("c1")))
    assert refused(session.owner(user(op=span(2, 3), sourceEventSeqs=[2, 3]))) == ("pairing", 0)
    assert refused(session.owner(user(op=span(5, 5), sourceEventSeqs=[5]))) == ("pairing", 0)
    other = result("c1", "short", op=span(5, 5), error="E", sourceEventSeqs=[5])
    assert refused(session.owner(other)) == ("surface.tool_result", 0)
    two = result("c1", "short", op=span(3, 5), sourceEventSeqs=[3, 5])
    assert refused(session.owner(two)) == ("surface.tool_result", 0)
    admitted(session.owner(result("c1", "short", op=span(5, 5), sourceEventSeqs=[5])))
    assert session.state is not None
    assert session.state.generation == 1
    admitted(session.owner(user(op=span(2, 6), sourceEventSeqs=[2, 3, 6])))
    assert session.state.surface.seqs() == [7]


def test_an_append_cites_its_own_events(session: LiveSession) -> None:
    batch = admitted(
        session.owner(run("a", "b"), assistant("c1", sourceEventSeqs=[-1, -2]), call("c1"))
    )
    assert batch.items[1]["sourceEventSeqs"] == [-1, -2]  # type: ignore[index]
    late = result("c1", sourceEventSeqs=[-2])
    assert refused(session.owner(late)) == ("surface.sources", 0)
    admitted(session.owner(result("c1", sourceEventSeqs=[6])))


@pytest.mark.parametrize(
    ("role", "item", "code"),
    [
        ("contributor", user(), "role"),
        ("contributor", run("a"), "role"),
        ("compactor", user(), "role"),
        ("compactor", user(op=span(2, 2), sourceEventSeqs=[2]), "role"),
        ("compactor", run("a"), "role"),
        ("compactor", result("c"), "role"),
        ("compactor", posted(), "role"),
        ("compactor", event("session/title", {}), "role"),
        ("operator", run("a"), "role"),
        ("operator", turn_start(2), "role"),
        ("operator", compaction_start(), "role"),
        ("operator", posted(), "role"),
        ("operator", step_end(), None),
        ("operator", user(), None),
        ("operator", event("session/title", {}), None),
        ("contributor", posted(), None),
        ("importer", user(), "role"),
    ],
)
def test_roles_write_what_they_are_for(
    session: LiveSession, role: Role, item: Item, code: str | None
) -> None:
    decision = session.send(session.request("w", role, item))
    if code is None:
        admitted(decision)
    else:
        assert refused(decision)[0] == code


def test_a_post_is_claimed_once_and_by_the_owner(session: LiveSession) -> None:
    admitted(session.contributor(posted(), posted()))
    claim = user(sourceEventSeqs=[3])
    operator = session.request("op", "operator", claim)
    assert refused(session.send(operator)) == ("role", 0)
    assert refused(session.owner(claim, user(sourceEventSeqs=[3, 4]))) == ("inbox.claimed", 1)
    admitted(session.owner(claim))
    assert refused(session.owner(claim)) == ("inbox.claimed", 0)
    admitted(session.owner(user(sourceEventSeqs=[4])))


def test_a_post_cited_by_a_whole_float_is_claimed_all_the_same(session: LiveSession) -> None:
    admitted(session.contributor(posted()))
    admitted(session.owner(user(sourceEventSeqs=[3.0])))
    assert refused(session.owner(user(sourceEventSeqs=[3.0]))) == ("inbox.claimed", 0)


def test_a_post_may_be_claimed_by_the_append_that_carries_it(session: LiveSession) -> None:
    admitted(session.owner(run("a"), posted(), user(sourceEventSeqs=[-2])))
    assert refused(session.owner(user(sourceEventSeqs=[4]))) == ("inbox.claimed", 0)


def test_at_most_a_thousand_posts_wait(session: LiveSession) -> None:
    assert refused(session.contributor(*[posted()] * 1001)) == ("inbox.full", 1000)
    admitted(session.contributor(*[posted()] * 1000))
    assert refused(session.contributor(posted())) == ("inbox.full", 0)
    admitted(session.owner(user(sourceEventSeqs=[700])))
    admitted(session.contributor(posted()))


def test_idle_writers_are_forgotten_by_the_log_s_own_time(session: LiveSession) -> None:
    admitted(session.contributor(posted()))
    admitted(session.compactor(compaction_start()))
    again = session.request("peer", "contributor", posted())
    session.now += REQUEST_RETENTION_MS + 1
    # Nothing was appended since: the log's time has not moved.
    assert session.state is not None
    assert session.state.writers.by_id.keys() == {"agent", "peer", "worker"}
    admitted(session.contributor(posted(), writer="peer2"))
    # The owner and the writer of the open bracket stay.
    assert session.state.writers.by_id.keys() == {"agent", "worker", "peer2"}
    assert refused(session.ask(again)) == ("order", None)
    admitted(session.compactor(compaction_end(error="late")))
    session.now += REQUEST_RETENTION_MS + 1
    admitted(session.open("next"))
    assert session.state.writers.by_id.keys() == {"next"}


def test_a_clock_that_goes_back_forgets_nobody(session: LiveSession) -> None:
    session.now -= 10 * REQUEST_RETENTION_MS
    admitted(session.contributor(posted()))
    assert session.state is not None
    assert session.state.writers.by_id.keys() == {"agent", "peer"}
