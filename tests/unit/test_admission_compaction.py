"""Compaction brackets and prunes in admission: who may replace what, and what is over for good."""

from __future__ import annotations

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
    prune,
    receipt,
    refused,
    result,
    run,
    span,
    step_end,
    summary,
    user,
)

from surfacelog.projections.compaction_bracket import REMEMBERED_BRACKETS
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.records import Open

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import Item


@pytest.fixture
def answered(session: LiveSession) -> LiveSession:
    """The same, with a tool result at 5 that is worth pruning."""
    admitted(session.owner(assistant("c1"), call("c1"), result("c1", "long " * 50), step_end()))
    return session


def test_a_compaction_lands_in_one_append(session: LiveSession) -> None:
    admitted(session.owner(assistant("c1"), call("c1"), result("c1"), step_end()))
    admitted(session.compactor(compaction_start()))
    batch = admitted(
        session.compactor(
            summary([2, 3, 5]),
            checkpoint([2, 3, 5], cites=[7, -1]),
            receipt(),
            compaction_end(),
        )
    )
    assert session.state is not None
    assert session.state.surface.seqs() == [batch.first_seq + 1]
    assert session.state.generation == 1
    assert session.state.bracket is None


def test_an_open_bracket_keeps_others_from_replacing(session: LiveSession) -> None:
    admitted(session.compactor(compaction_start()))
    edit = user(op=span(2, 2), sourceEventSeqs=[2])
    assert refused(session.owner(edit)) == ("compaction.busy", 0)
    other = compaction_start("c2")
    assert refused(session.compactor(other, writer="w2")) == ("compaction.busy", 0)
    foreign = checkpoint([2], "c2")
    assert refused(session.compactor(foreign, writer="w2")) == ("compaction.busy", 0)
    admitted(session.owner(user()))
    admitted(session.compactor(compaction_end(error="orphaned"), writer="w2"))
    admitted(session.owner(edit))


def test_a_span_that_is_not_what_was_summarized(session: LiveSession) -> None:
    admitted(session.owner(user(), user()))
    admitted(session.compactor(compaction_start()))
    for seqs in ([2], [2, 3, 4], [2, 4], [2, 9]):
        append = (summary([2, 3]), checkpoint(seqs))
        assert refused(session.compactor(*append)) == ("compaction.changed", 1)


def test_a_zombie_is_told_that_its_bracket_is_closed(session: LiveSession) -> None:
    admitted(session.compactor(compaction_start()))
    admitted(session.compactor(compaction_end(error="orphaned"), writer="w2"))
    landing = (summary([2]), checkpoint([2]), receipt(), compaction_end())
    assert refused(session.compactor(*landing)) == ("compaction.closed", 0)
    admitted(session.compactor(compaction_start("c2"), writer="w2"))
    assert refused(session.compactor(*landing)) == ("compaction.closed", 0)
    assert refused(session.compactor(checkpoint([2]))) == ("compaction.closed", 0)
    assert refused(session.compactor(compaction_end(error="x"))) == ("compaction.closed", 0)


def test_a_new_owner_makes_the_bracket_stale(session: LiveSession) -> None:
    admitted(session.compactor(compaction_start()))
    admitted(session.open("next"))
    assert session.state is not None
    assert session.state.bracket is None
    landing = (summary([2]), checkpoint([2]), compaction_end())
    assert refused(session.compactor(*landing)) == ("compaction.closed", 0)
    assert refused(session.compactor(compaction_start())) == ("compaction.closed", 0)
    admitted(session.compactor(compaction_start("c2")))


@pytest.mark.parametrize(
    "items",
    [
        (summary([]),),
        (summary([2], shadowedRange={"start": 1, "end": 2}),),
        (summary([2], shadowedTokenCount=-1),),
        (summary([2], sourceCommandId="cmd"),),
        (summary([2], "c9"),),
        (summary([2], ""),),
        (summary([2]), summary([2])),
        (summary([2]), checkpoint([2], sourceCommandId="cmd")),
        (summary([2]), checkpoint([2]), checkpoint([2])),
        (checkpoint([2]),),
        (compaction_end(),),
        (compaction_end(turn=1, error="x"),),
        (compaction_end("c9", error="x"),),
    ],
)
def test_a_bracket_keeps_its_form(session: LiveSession, items: tuple[Item, ...]) -> None:
    admitted(session.compactor(compaction_start()))
    assert refused(session.compactor(*items)) == ("compaction.invalid", len(items) - 1)


def test_without_a_bracket_nothing_is_compacted(session: LiveSession) -> None:
    for item in (summary([2]), checkpoint([2]), compaction_end(error="x")):
        assert refused(session.compactor(item)) == ("compaction.invalid", 0)


def test_a_result_is_pruned_together_with_the_event_that_says_so(session: LiveSession) -> None:
    admitted(session.owner(assistant("c1"), call("c1"), result("c1", "long " * 50), step_end()))
    short = result("c1", "short", op=span(5, 5), sourceEventSeqs=[5])
    assert refused(session.compactor(short)) == ("compaction.invalid", 0)
    assert refused(session.compactor(prune(3), short)) == ("compaction.invalid", 1)
    admitted(session.compactor(prune(5), short))


def short(seq: int = 5) -> JsonObject:
    return result("c1", "short", op=span(seq, seq), sourceEventSeqs=[seq])


def odd_prune(**data: JsonValue) -> JsonObject:
    good: JsonObject = {
        "shadowedRange": {"start": 5, "end": 5},
        "shadowedSeqs": [5],
        "shadowedTokenCount": 9,
    }
    return event("compaction/prune", {**good, **data})


@pytest.mark.parametrize(
    ("items", "place"),
    [
        ((prune(5),), 0),
        ((prune(5), run("a")), 0),
        ((prune(5), receipt(), short()), 0),
        ((prune(5), prune(5), short()), 0),
        ((prune(5), short(), short(9)), 2),
        ((odd_prune(shadowedSeqs=[]), short()), 0),
        ((odd_prune(shadowedSeqs=[3, 5]), short()), 0),
        ((odd_prune(shadowedSeqs=[True], shadowedRange={"start": True, "end": True}), short()), 0),
        ((odd_prune(shadowedRange={"start": 3, "end": 5}), short()), 0),
        ((odd_prune(shadowedTokenCount=-1), short()), 0),
        ((odd_prune(shadowedTokenCount=None), short()), 0),
    ],
)
def test_half_of_a_prune_is_not_admitted(
    answered: LiveSession, items: tuple[Item, ...], place: int
) -> None:
    assert refused(answered.compactor(*items)) == ("compaction.invalid", place)


def test_several_results_are_pruned_in_one_append(answered: LiveSession) -> None:
    admitted(answered.compactor(prune(5), short(), prune(8), short(8)))
    assert answered.state is not None
    assert answered.state.generation == 2


def test_a_prune_waits_for_the_end_of_a_bracket(answered: LiveSession) -> None:
    admitted(answered.compactor(compaction_start()))
    assert refused(answered.compactor(prune(5), short())) == ("compaction.busy", 1)


def test_an_owner_prunes_nothing_but_may_shorten_a_result(answered: LiveSession) -> None:
    assert refused(answered.owner(prune(5), short())) == ("role", 0)
    admitted(answered.owner(short()))


def test_a_worker_s_earlier_brackets_are_over_too(session: LiveSession) -> None:
    for n in range(REMEMBERED_BRACKETS):
        admitted(session.compactor(compaction_start(f"k{n}"), compaction_end(f"k{n}", error="x")))
    assert session.state is not None
    session.state = SessionState.from_bytes(session.state.to_bytes())
    for late in (compaction_end("k0", error="x"), summary([2], "k0"), checkpoint([2], "k0")):
        assert refused(session.compactor(late)) == ("compaction.closed", 0)
    assert refused(session.compactor(compaction_start("k0"), writer="w2")) == (
        "compaction.closed",
        0,
    )


def test_what_is_remembered_of_brackets_is_bounded(session: LiveSession) -> None:
    for n in range(2 * REMEMBERED_BRACKETS):
        admitted(session.compactor(compaction_start(f"k{n}"), compaction_end(f"k{n}", error="x")))
    assert session.state is not None
    assert len(session.state.brackets.started) == REMEMBERED_BRACKETS
    assert refused(session.compactor(compaction_end("k0", error="x"))) == ("compaction.invalid", 0)


def test_an_imported_bracket_is_over_too() -> None:
    session = LiveSession()
    history = (user(), compaction_start("old"), compaction_end("old", error="x"))
    admitted(session.send(session.request("imp", "importer", *history, open=Open(HEADER))))
    assert refused(session.compactor(compaction_end("old", error="x"))) == ("compaction.closed", 0)


def test_a_whole_float_names_a_node_as_well(session: LiveSession) -> None:
    admitted(session.compactor(compaction_start(turn=1.0)))
    floats = summary([2], shadowedSeqs=[2.0], shadowedRange={"start": 2.0, "end": 2})
    admitted(session.compactor(floats, checkpoint([2]), compaction_end(turn=1)))


@pytest.mark.parametrize(
    "start",
    [
        compaction_start(turn="1"),
        compaction_start(turn=1.5),
        compaction_start(sourceCommandId=7),
        compaction_start(""),
    ],
)
def test_a_start_says_what_its_end_must_repeat(session: LiveSession, start: JsonObject) -> None:
    assert refused(session.compactor(start)) == ("compaction.invalid", 0)


def test_only_a_plugin_s_message_is_a_checkpoint(session: LiveSession) -> None:
    """As everywhere else a checkpoint is told by its source: the kind, and then the plugin."""
    edit = checkpoint([2], kind="user")
    assert refused(session.compactor(edit)) == ("role", 0)
    admitted(session.owner(edit))
