"""Opening: creating a session, loading it, taking its ownership with what repairs its end."""

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
    event,
    posted,
    prune,
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

from surfacelog.projections.admission import Admitted, Duplicate
from surfacelog.projections.closers import crash_closers
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.errors import CorruptLogError, UnsupportedLogError
from surfacelog.schemas.records import ChunkRun, Open, Opened

if TYPE_CHECKING:
    from surfacelog.schemas.event_types import Role
    from surfacelog.schemas.json_value import JsonObject


def test_the_first_open_creates_the_session_and_appends_nothing() -> None:
    session = LiveSession()
    batch = admitted(session.open())
    assert batch.opened == Opened(HEADER, 1, loading=False)
    assert (batch.first_seq, batch.items, batch.epoch) == (0, (), 1)


def test_opening_a_session_without_events_takes_it_and_appends_nothing() -> None:
    session = LiveSession()
    session.open()
    batch = admitted(session.open("second"))
    assert (batch.items, batch.epoch) == ((), 2)
    assert session.state is not None
    assert (session.state.owner, session.state.epoch) == ("second", 2)


def test_the_header_of_the_log_stays() -> None:
    session = LiveSession()
    session.open()
    other = session.request("second", "owner", open=Open({**HEADER, "cwd": "/other"}))
    assert admitted(session.send(other)).opened == Opened(HEADER, 2, loading=False)


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({"version": 1, "id": "s"}, "unsupported_version"),
        ({"version": -1, "id": "s"}, "unsupported_version"),
        ({"id": "s"}, "malformed"),
        ({"version": 0}, "malformed"),
        ({"version": 0, "createdAt": 1}, "malformed"),
        ({"version": 0, "id": "s"}, "malformed"),
        ({"version": 0, "id": "other", "createdAt": 1}, "malformed"),
        ({"version": 0, "id": "s", "createdAt": 1, "cwd": "relative"}, "malformed"),
    ],
)
def test_a_header_that_could_not_be_read_again_is_refused(header: JsonObject, code: str) -> None:
    session = LiveSession()
    assert refused(session.send(session.request("a", "owner", open=Open(header)))) == (code, None)


@pytest.mark.parametrize("role", ["contributor", "compactor"])
def test_only_some_roles_open(role: Role) -> None:
    assert refused(LiveSession().open("a", role)) == ("role", None)


def test_only_an_importer_loads() -> None:
    assert refused(LiveSession().open(loading=True)) == ("role", None)


def test_taking_over_closes_the_crashed_turn() -> None:
    session = LiveSession()
    session.open()
    session.owner(turn_start(), step_start(), user(), run("a", "b"))
    session.owner(assistant("c1", "c2", "c3"), call("c1"), call("c2"), result("c2"))
    expected = crash_closers(session.events())
    request = session.request("next", "owner", user(sourceEventSeqs=[-2]), open=Open(HEADER))
    assert refused(session.send(request)) == ("surface.sources", 0)
    opening = replace(request, items=(turn_start(2), user(sourceEventSeqs=[-1])))
    decision = session.send(opening)
    assert isinstance(decision, Admitted)
    assert not decision.as_sent
    kinds = [e["type"] for e in session.events()[9:]]
    assert kinds == [
        "tool/result",
        "tool/result",
        "step/end",
        "turn/end",
        "session/end-seed",
        "turn/start",
        "user/message",
    ]
    assert session.events()[9:13] == expected
    # The open's own events cite by where they are, behind the closers.
    assert session.events()[-1]["sourceEventSeqs"] == [14]
    assert session.ask(opening) == Duplicate(9, 15, 2)


def test_every_unanswered_block_of_a_live_turn_gets_a_result() -> None:
    """Two blocks of one id, and a pruned older result of that id: the plain closers know of one,
    and of none."""
    session = LiveSession()
    session.open()
    admitted(session.owner(turn_start(), step_start(), assistant("c1"), call("c1"), result("c1")))
    admitted(session.owner(step_end(), step_start(2), assistant("c1", step=2), call("c1", step=2)))
    admitted(session.owner(assistant("c1", step=2)))
    short = result("c1", "short", op=span(4, 4), sourceEventSeqs=[4])
    admitted(session.compactor(prune(4), short))
    assert crash_closers(session.events())[0]["type"] == "step/end"
    batch = admitted(session.open("next"))
    kinds = [item["type"] for item in batch.items if not isinstance(item, ChunkRun)]
    assert kinds == ["tool/result", "tool/result", "step/end", "turn/end", "session/end-seed"]
    assert session.state is not None
    assert sum(node.delta for node in session.state.surface.nodes) == 0
    admitted(session.send(session.request("next", "owner", user())))


def test_an_imported_turn_is_closed_as_its_log_says() -> None:
    """Numbers, steps and ids of its own: what a live session would have refused."""
    odd = assistant("c1", "c2", turn=7, step=3)
    odd["data"]["message"]["content"].append({"type": "tool-call"})  # type: ignore[index,call-overload,union-attr]  # as it was made
    history = (
        event("turn/start", {"turn": 7, "trigger": None}),
        call("c2", turn=7, step=3),
        odd,
        step_start(4, 7),
        call("c1", turn=7, step=4),
    )
    session = LiveSession()
    admitted(session.send(session.request("imp", "importer", *history, open=Open(HEADER))))
    expected = crash_closers(session.events())
    admitted(session.open())
    results = [e for e in session.events()[5:] if e["type"] == "tool/result"]
    assert results == expected[:2]
    assert [e["data"]["step"] for e in results] == [3, 3]  # type: ignore[index,call-overload]  # objects
    # The third one has no id: no event could answer it.
    assert len(expected) == len(session.events()) - 5


def test_a_log_that_ends_with_an_end_seed_gets_no_second_one() -> None:
    session = LiveSession()
    session.open()
    session.owner(turn_start(), turn_end())
    assert len(admitted(session.open("b")).items) == 1
    assert admitted(session.open("c")).items == ()
    session.contributor(posted())
    assert len(admitted(session.open("d")).items) == 1


def test_while_a_session_is_loading_its_importer_alone_is_admitted() -> None:
    session = LiveSession()
    opening = session.request("imp", "importer", turn_start(7), open=Open(HEADER, loading=True))
    assert admitted(session.send(opening)).opened == Opened(HEADER, 1, loading=True)
    assert refused(session.open("agent")) == ("loading", None)
    assert refused(session.contributor(posted())) == ("loading", None)
    again = session.request("imp2", "importer", open=Open(HEADER, loading=True))
    assert refused(session.send(again)) == ("loading", None)
    # A killed import sends again what it sent before, and goes on.
    assert session.ask(opening) == Duplicate(0, 0, 1)
    admitted(session.send(session.request("imp", "importer", turn_end(7))))
    assert refused(session.open("imp", "importer", loading=True)) == ("exists", None)
    empty = session.request("imp", "importer", open=Open(HEADER))
    assert refused(session.send(empty)) == ("malformed", None)
    last = session.request("imp", "importer", event("session/title", {}), open=Open(HEADER))
    batch = admitted(session.send(last))
    assert (batch.opened, batch.first_seq, len(batch.items)) == (Opened(HEADER, 1, False), 2, 1)
    assert refused(session.send(session.request("imp", "importer", turn_start()))) == ("role", None)
    assert refused(session.open("other", "importer")) == ("exists", None)
    admitted(session.open("agent"))


def test_an_import_of_one_append_is_never_loading() -> None:
    session = LiveSession()
    admitted(session.send(session.request("imp", "importer", user(), open=Open(HEADER))))
    assert session.state is not None
    assert not session.state.loading


def test_imported_calls_without_results_do_not_stop_the_next_owner() -> None:
    session = LiveSession()
    history = (turn_start(), step_start(), assistant("c1"), step_end(), turn_end())
    admitted(session.send(session.request("imp", "importer", *history, open=Open(HEADER))))
    admitted(session.open())
    admitted(session.owner(turn_start(2), step_start(turn=2), user()))
    replacing = user(op={"op": "replace", "start": 2, "end": 2}, sourceEventSeqs=[2])
    assert refused(session.owner(replacing)) == ("pairing", 0)


def test_a_batch_is_applied_once_and_never_over_a_gap() -> None:
    session = LiveSession()
    session.open()
    session.owner(turn_start())
    session.owner(turn_end())
    state = SessionState.new("s")
    assert [state.apply(batch) for batch in session.log[:2]] == [True, True]
    assert [state.apply(batch) for batch in session.log[:2]] == [False, False]
    with pytest.raises(CorruptLogError):
        SessionState.new("s").apply(session.log[2])


def test_a_snapshot_of_another_version_is_not_read() -> None:
    snapshot = SessionState.new("s").to_bytes()
    for other in (b"", b"\x01" + snapshot[1:]):
        with pytest.raises(UnsupportedLogError):
            SessionState.from_bytes(other)
