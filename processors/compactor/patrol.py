"""Looking for compactions whose worker is gone, also where nobody asks for another (DESIGN 7)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

import structlog

from surfacelog.processors.compactor.lock import session_lock
from surfacelog.processors.compactor.takeover import end_orphan
from surfacelog.projections.visibility import wait_at_most
from surfacelog.schemas.errors import ServiceError, SurfacelogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from surfacelog.processors.compactor.one_compaction import Tools
    from surfacelog.projections.keys import Keys
    from surfacelog.projections.redis_calls import RedisCalls

LOOK_SECONDS: Final = 300.0
"""A look costs two commands a session in Redis."""

SLICE: Final = 500

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Patrol:
    """Ends the open compactions that no worker holds the lock for."""

    tools: Tools
    calls: RedisCalls
    keys: Keys

    async def run(self) -> None:
        """Look at once, and then again and again until the worker is told to stop."""
        while not self.tools.stopping.is_set():
            try:
                await self.look()
            except ServiceError as error:
                _log.warning("orphans not looked for", reason=error.message)
            await wait_at_most(self.tools.stopping, LOOK_SECONDS)

    async def look(self) -> None:
        """End what is open and unlocked now and still is after the time to live of a lock.

        Looked at only once, a compaction that has just ended seems to be one: its lock is gone
        at once, and Redis shows the end of its bracket a moment later.
        """
        listed = await self.calls.one(("ZRANGE", self.keys.directory, 0, -1))
        found = await self._unlocked(session_id.decode() for session_id in listed)
        seconds = self.tools.settings.compactor_lock_seconds
        if not found or await wait_at_most(self.tools.stopping, seconds):
            return
        for session_id, _ in found & await self._unlocked(session_id for session_id, _ in found):
            await self._end(session_id)

    async def _unlocked(self, session_ids: Iterable[str]) -> set[tuple[str, str]]:
        """Return sessions with their open compactions that no lock is held for."""
        found: set[tuple[str, str]] = set()
        for ids in _slices(session_ids):
            opened = await self.calls.run(
                [("HGET", self.keys.session(s, "m"), "compaction") for s in ids]
            )
            open_ids = [(s, o.decode()) for s, o in zip(ids, opened, strict=True) if o]
            locks = await self.calls.run([("EXISTS", self.keys.lock(s)) for s, _ in open_ids])
            found |= {one for one, locked in zip(open_ids, locks, strict=True) if not locked}
        return found

    async def _end(self, session_id: str) -> None:
        seconds, stopping = self.tools.settings.compactor_lock_seconds, self.tools.stopping
        try:
            async with session_lock(self.calls, self.keys.lock(session_id), seconds, stopping):
                await end_orphan(await self.tools.surface.read(session_id), self.tools)
        except SurfacelogError as error:
            _log.warning("orphan not ended", session=session_id, reason=error.message)


def _slices(session_ids: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(session_ids)
    while ids := list(islice(remaining, SLICE)):
        yield ids
