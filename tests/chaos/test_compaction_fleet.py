"""Forty sessions under pressure at once: all are compacted, and none waits for ever."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.compaction_fleet import compact_fleet

if TYPE_CHECKING:
    from tests.processes import Spawner

    from surfacelog.schemas.settings import Settings

pytestmark = [pytest.mark.services, pytest.mark.chaos]

SESSIONS = 40


async def test_forty_sessions_under_pressure_at_once(settings: Settings, spawn: Spawner) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    figures = await compact_fleet(settings, spawn, SESSIONS, seed)

    print(figures)
    assert figures.refusals.keys() <= {"compaction.busy", "compaction.closed", "expectation"}
    assert figures.failures.keys() <= {"summary"}
    assert figures.calls <= figures.attempts + 4 * figures.failures.total()
