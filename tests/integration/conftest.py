"""Fixtures that tests of compactions share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.compaction_stack import Stack, connect, start_services

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.processes import Spawner

    from surfacelog.schemas.settings import Settings


@pytest.fixture
async def stack(settings: Settings, spawn: Spawner) -> AsyncIterator[Stack]:
    """Clients of this test's namespace, whose sequencer and projector run."""
    start_services(spawn)
    async with connect(settings) as stack:
        yield stack
