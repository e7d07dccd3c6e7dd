"""Compactors killed at every step of a compaction: exactly one lands, its bracket is closed."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from tests.integration.compaction_stack import connect, start_services, write_long_session

from surfacelog.schemas.event_types import COMPACTION_RECEIPT
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from tests.processes import Spawner

    from surfacelog.schemas.settings import Settings

pytestmark = [pytest.mark.services, pytest.mark.chaos]

FAILPOINTS = (
    "compactor-locked",
    "compactor-started",
    "compactor-calling",
    "compactor-kept",
    "compactor-published",
    "compactor-committing",
)
OUTCOME_SECONDS = 60.0


async def test_a_request_survives_a_kill_at_every_step(settings: Settings, spawn: Spawner) -> None:
    """One request, six workers: each dies one step further, the seventh finishes.

    A worker inherits the request when its predecessor's group membership has timed out.
    """
    start_services(spawn)
    async with connect(settings) as stack:
        await write_long_session(stack, "hunted")
        request = await stack.compactions.request("hunted", generation=0, requested_by="test")
        for name in FAILPOINTS:
            worker = spawn(
                "compactor", SURFACELOG_FAILPOINT=name, SURFACELOG_COMPACTOR_LOCK_SECONDS="2"
            )
            assert worker.wait_exit(OUTCOME_SECONDS) == -signal.SIGKILL, name
        last = spawn("compactor")

        outcome = await stack.compactions.outcome(request, OUTCOME_SECONDS)
        last.wait_line("request done", OUTCOME_SECONDS)
        assert last.terminate() == 0

        assert outcome.status == "compacted"
        events = await stack.events("hunted")
        types = [event["type"] for event in events]
        assert types.count("compaction/summary") == 1
        assert types.count("compaction/start") == types.count("compaction/end") == 4
        ended = [member(e["data"], "errorClass") for e in events if e["type"] == "compaction/end"]
        assert ended == ["orphaned", "orphaned", "orphaned", None]
        (receipt,) = (event["data"] for event in events if event["type"] == COMPACTION_RECEIPT)
        assert member(receipt, "attempts") == 2, "the call that a kill cut off, and the one kept"
        await stack.check_surface("hunted")
