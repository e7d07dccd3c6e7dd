"""A compaction whose worker is gone is ended although nobody asks for another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.compaction_stack import connect, start_services, write_long_session
from tests.live_session import compaction_start

from surfacelog.processors.compactor.appends import SessionAppends
from surfacelog.projections.keys import Keys
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from tests.processes import Spawner

    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

LOCK_SECONDS = "1"


async def test_what_no_worker_holds_is_ended_and_what_one_holds_is_not(
    settings: Settings, spawn: Spawner
) -> None:
    start_services(spawn)
    keys = Keys(settings.namespace)
    async with connect(settings) as stack:
        started = {}
        for session_id in ("held", "orphan"):
            await write_long_session(stack, session_id)
            with SessionAppends(stack.appends, session_id) as appends:
                started[session_id] = await appends.append([compaction_start(session_id)])
            await stack.read(session_id, started[session_id])
        await stack.calls.one(("SET", keys.lock("held"), "another worker"))

        compactor = spawn("compactor", SURFACELOG_COMPACTOR_LOCK_SECONDS=LOCK_SECONDS)
        compactor.wait_line("orphan ended")

        cut = await stack.read("orphan", started["orphan"] + 1)
        assert cut.open_compaction is None
        end = (await stack.events("orphan"))[-1]
        assert (end["type"], member(end["data"], "errorClass")) == ("compaction/end", "orphaned")
        assert (await stack.read("held", started["held"])).open_compaction == "held"
        assert compactor.terminate() == 0
        assert len(await stack.events("held")) == started["held"] + 1
