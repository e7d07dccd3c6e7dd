"""The demo from the first append to the last: what happens, and when."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from surfacelog.processors.demo.cast import STAR
from surfacelog.processors.demo.patience import DemoError, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from surfacelog.processors.demo.agents import Agents
    from surfacelog.processors.demo.cast import Cast, Part
    from surfacelog.processors.demo.full_sessions import FullSessions
    from surfacelog.processors.demo.watch import Watch
    from surfacelog.processors.demo.workers import Workers
    from surfacelog.producers.compaction_client import CompactionClient
    from surfacelog.projections.reader import SurfaceReader

REFRESH_SECONDS: Final = 0.25
LINES_SECONDS: Final = 4.0
OUTCOME_SECONDS: Final = 60.0
KILL_AT_EVENTS: Final = 800
COMPACT_AT_NODES: Final = 10


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that happens at the same time, and who does it.

    `import_part` imports one recording and returns its number of events.
    """

    cast: Cast
    agents: Agents
    workers: Workers
    watch: Watch
    reader: SurfaceReader
    compactions: CompactionClient
    full_sessions: FullSessions
    import_part: Callable[[Part], Awaitable[int]]

    async def play(self) -> None:
        """Write, import, kill and compact; return when every agent has its last receipt."""
        async with self._watched(), asyncio.TaskGroup() as scenes:
            for parts in self.cast.agents:
                scenes.create_task(self.agents.play(parts))
            scenes.create_task(self._import_all())
            scenes.create_task(self._kill_once())
            scenes.create_task(self._compact())

    @asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """Keep the view moving for as long as the context lasts."""
        tasks = [
            asyncio.create_task(_every(REFRESH_SECONDS, self.watch.refresh)),
            asyncio.create_task(_every(LINES_SECONDS, self.watch.say_rows)),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.watch.refresh()

    async def _import_all(self) -> None:
        events = [await self.import_part(part) for part in self.cast.imports]
        self.watch.say(f"{len(events)} other recordings imported: {sum(events)} events.")

    async def _kill_once(self) -> None:
        """Kill the sequencer while agents wait for receipts."""
        await until("agents write", lambda: self.agents.sent >= KILL_AT_EVENTS)
        await until("an append is on its way", lambda: self.agents.unacknowledged > 0)
        waiting = self.agents.unacknowledged
        pid = self.workers.kill_sequencer()
        self.watch.say(
            f"Sequencer {pid} killed with -9 while {waiting} appends wait for their receipts."
            " The supervisor starts another."
        )
        enough = self.watch.events + KILL_AT_EVENTS
        await until("a new sequencer goes on", lambda: self.watch.events > enough)
        self.watch.say("It is back: it restored from the log, and the agents go on.")

    async def _compact(self) -> None:
        """One compactor first, on request; then two of them, unasked."""
        await self._compact_star()
        await self.full_sessions.play()

    async def _compact_star(self) -> None:
        """Compact the long session while its agent goes on writing."""
        await until(f"{STAR} grows", lambda: self._nodes(STAR) >= COMPACT_AT_NODES)
        cut = await self.reader.read(STAR)
        request = await self.compactions.request(
            STAR, generation=cut.generation, requested_by="demo"
        )
        outcome = await self.compactions.outcome(request, OUTCOME_SECONDS)
        if outcome.status != "compacted":
            raise DemoError(f"{STAR} was not compacted: {outcome.status}, {outcome.reason}")
        self.watch.say(
            f"{STAR} compacted on request, while its agent writes: {len(outcome.shadowed)} nodes"
            f" replaced by the checkpoint at seq {outcome.checkpoint_seq},"
            f" {outcome.tokens_before} tokens -> {outcome.tokens_after}. No event was deleted."
        )

    def _nodes(self, session: str) -> int:
        row = self.watch.rows.get(session)
        return 0 if row is None else row.nodes


async def _every(seconds: float, act: Callable[[], Awaitable[None]]) -> None:
    while True:
        await act()
        await asyncio.sleep(seconds)
