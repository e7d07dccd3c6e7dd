"""The agent of the demo that fills its session, and the check of what it wrote."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.compaction_stack import end_classes, start_services

from surfacelog.processors.demo.check import Checker
from surfacelog.processors.demo.noting_client import NotingClient
from surfacelog.processors.demo.reviewer import PLUGIN, Reviewer
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.projections.reader import SurfaceReader

if TYPE_CHECKING:
    from tests.processes import Spawner

    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

FOLDER = Path(__file__).parents[2] / "schemas"


async def test_a_full_session_is_compacted_and_told_its_context_again(
    settings: Settings, spawn: Spawner
) -> None:
    start_services(spawn)
    spawn("compactor")
    async with (
        await NotingClient.connect(settings) as client,
        await SurfaceReader.connect(settings) as reader,
    ):
        reviewer = Reviewer("review", FOLDER, client, {})
        await reviewer.work()
        assert reviewer.snapshots == 2
        log = LogReader(settings, client.codec, SessionIndex(settings))
        assert end_classes(list(log.events("review"))) == [None]
        sent = client.events("review")
        assert reviewer.progress["review"].sent == len(sent)

        checker, told = Checker(log, reader), {PLUGIN: reviewer.workspace}
        verdict = await checker.check("review", sent, told=told)
        assert verdict.problems == ()
        assert verdict.events > len(sent), "the compaction's events are in the log, too"

        async def problems(sent: list[JsonObject], told: dict[str, dict[str, str]]) -> str:
            return "; ".join((await checker.check("review", sent, told=told)).problems)

        assert "events were sent" in await problems(sent[:-1], told)
        assert "is not what was sent" in await problems([*sent[:-1], sent[0]], told)
        assert "does not see" in await problems(sent, {PLUGIN: {"cwd": "elsewhere"}})
