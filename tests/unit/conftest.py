"""Fixtures that tests of admission share."""

from __future__ import annotations

import pytest
from tests.live_session import LiveSession, admitted, step_start, turn_start, user


@pytest.fixture
def session() -> LiveSession:
    """An opened session with a step in progress: nodes at 2 (user)."""
    session = LiveSession()
    admitted(session.open())
    admitted(session.owner(turn_start(), step_start(), user()))
    return session
