"""Copies of a session's state: what an overlay changes, and what it must leave alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.live_session import (
    LiveSession,
    admitted,
    compaction_start,
    posted,
    step_end,
    step_start,
    turn_start,
    user,
)

if TYPE_CHECKING:
    from surfacelog.projections.session_state import SessionState
    from surfacelog.schemas.json_value import JsonObject


def state_in_a_step() -> SessionState:
    session = LiveSession()
    admitted(session.open())
    admitted(session.owner(turn_start(), step_start(1), user("hello")))
    assert session.state is not None
    return session.state


EVENTS = [step_end(), user("more"), posted(), compaction_start()]


@pytest.mark.parametrize("changed", EVENTS, ids=lambda changed: changed["type"])
@pytest.mark.parametrize("place", range(3), ids=("original", "copy", "copy of the copy"))
def test_a_change_to_one_copy_is_seen_by_no_other(changed: JsonObject, place: int) -> None:
    original = state_in_a_step()
    before = original.to_bytes()
    first = original.copy()
    states = [original, first, first.copy()]
    states.pop(place).advance(changed, 9, "agent", live=True)
    assert [state.to_bytes() for state in states] == [before, before]
