"""A fleet writes while sequencers are killed and a projector is restarted: nothing is lost.

The traffic and the kills follow SURFACELOG_SEED (printed); what the kernel schedules does not.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import urllib.request
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import TYPE_CHECKING

import pytest
from tests.fleet import Fleet, FleetSession

from surfacelog.processors.stack.plan import free_port
from surfacelog.projections.fold import fold_log
from surfacelog.projections.log_reader import LogReader
from surfacelog.projections.reader import SurfaceReader
from surfacelog.schemas.chunk_runs import unpack_items
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.processes import Spawned, Spawner

    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import EventBatch
    from surfacelog.schemas.settings import Settings

pytestmark = [pytest.mark.services, pytest.mark.chaos, pytest.mark.timeout(420)]

KILLS = 5
AT_LEAST = 0.2


@dataclass
class Slot:
    """A place for a sequencer: the process of now, and what all of its processes committed."""

    spawn: Spawner
    name: str
    committed: int = 0
    _process: Spawned | None = None
    _port: int = 0
    _seen: int = field(default=0)

    def start(self, failpoint: str = "") -> None:
        self._port = free_port()
        self.committed += self._seen
        self._seen = 0
        self._process = self.spawn(
            "sequencer",
            "--http-port",
            str(self._port),
            ready=None,
            SURFACELOG_INSTANCE=self.name,
            SURFACELOG_FAILPOINT=failpoint,
        )

    @property
    def process(self) -> Spawned:
        assert self._process is not None
        return self._process

    def scrape(self) -> None:
        """Remember how many appends the process has committed; it may be dead already."""
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self._port}/metrics", timeout=2
            ) as page:
                text = page.read().decode()
        except (OSError, HTTPException):  # killed before or while it answered
            return
        found = re.search(r'appends_total\{outcome="committed"\} ([\d.]+)', text)
        self._seen = max(self._seen, int(float(found[1])) if found else 0)

    @property
    def share(self) -> int:
        return self.committed + self._seen


async def test_a_fleet_survives_five_kills(settings: Settings, spawn: Spawner) -> None:
    seed = int(os.environ.get("SURFACELOG_SEED", random.randrange(2**32)))
    print(f"SURFACELOG_SEED={seed}")
    fleet = Fleet(settings, seed, agents=20, sessions_each=5)
    slots = [Slot(spawn, "one"), Slot(spawn, "two")]
    for slot in slots:
        slot.start()
    projector = spawn("projector", ready=None)
    for process in (*(slot.process for slot in slots), projector):
        await asyncio.to_thread(process.wait_line, '"ready"', 60)
    done = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fleet.write(done))
        scraping = tasks.create_task(_scrape(slots))
        unacknowledged = await _kill_and_restart(fleet, slots, projector, spawn, seed)
        done.set()
        scraping.cancel()
    print(f"unacknowledged appends at the kills: {unacknowledged}")
    assert len(unacknowledged) == KILLS
    assert min(unacknowledged) >= 1
    total = sum(slot.share for slot in slots)
    print("appends by sequencer:", {slot.name: slot.share for slot in slots})
    assert min(slot.share for slot in slots) >= AT_LEAST * total
    await _check(fleet, settings)


async def _kill_and_restart(
    fleet: Fleet, slots: list[Slot], projector: Spawned, spawn: Spawner, seed: int
) -> list[int]:
    """Kill sequencers, the third inside an open transaction; restart the projector twice."""
    rng = random.Random(seed)
    counts = []
    await _until(lambda: len(fleet.writers) == fleet.agents * fleet.sessions_each)
    for kill in range(KILLS):
        await asyncio.sleep(rng.random() * 2)
        slot = slots[kill % 2]
        if kill == 2:
            slot.process.kill()
            slot.start(failpoint="after_send_offsets:20")
            await _until(lambda slot=slot: slot.process.process.poll() is not None)  # type: ignore[misc]  # binds the slot of now
            counts.append(fleet.unacknowledged)
        else:
            await _until(lambda: fleet.unacknowledged > 0)
            counts.append(fleet.unacknowledged)
            slot.process.kill()
        slot.start()
        if kill in (1, 3):
            projector.kill()
            projector = spawn("projector", ready=None)
        await asyncio.to_thread(slot.process.wait_line, '"ready"', 60)
    await asyncio.sleep(5)
    return counts


async def _check(fleet: Fleet, settings: Settings) -> None:
    """Compare the log and the Surface of every session with what its agent sent."""
    log = LogReader(settings, await asyncio.to_thread(connect_codec, settings))
    appends = 0
    async with await SurfaceReader.connect(settings) as reader:
        for session in fleet.sessions:
            batches = await asyncio.to_thread(_batches, log, session)
            logged = [e for batch in batches for e in unpack_items(batch.items, batch.first_seq)]
            assert [event["seq"] for event in logged] == list(range(len(logged)))
            assert [_content(event) for event in logged] == [_content(e) for e in session.sent]
            numbers = [batch.append_seq for batch in batches]
            assert numbers == list(range(len(numbers))), session.session_id
            appends += len(numbers)
            expected = fold_log(_as_logged(session))
            cut = await reader.read(session.session_id, at_least=len(logged) - 1, timeout=60)
            assert cut.nodes == expected.nodes
            assert list(cut.messages) == list(expected.messages)
    print(f"{len(fleet.sessions)} sessions, {appends} appends, each once and in order")


def _batches(log: LogReader, session: FleetSession) -> list[EventBatch]:
    return [batch for _, batch in log.batches(session.session_id)]


def _as_logged(session: FleetSession) -> list[JsonObject]:
    surface = {"user/message", "assistant/message", "tool/result"}
    return [
        {**event, "seq": seq, "time": 0}
        | ({"surfaceOp": "append"} if event["type"] in surface else {})
        for seq, event in enumerate(session.sent)
    ]


def _content(event: JsonObject) -> tuple[object, ...]:
    return event["type"], event["data"], event.get("sourceEventSeqs")


async def _scrape(slots: list[Slot]) -> None:
    while True:
        for slot in slots:
            await asyncio.to_thread(slot.scrape)
        await asyncio.sleep(0.2)


async def _until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # what is waited for happens in other processes
            await asyncio.sleep(0.02)
