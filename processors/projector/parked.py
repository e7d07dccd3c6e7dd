"""Sessions that stand still because an append could not be applied (DESIGN 6).

A parked session is visible in Redis, counted, and tried again, also after a restart. The
partition goes on without it: its later appends are left to the repair.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import structlog

from surfacelog.projections.store import pairs
from surfacelog.schemas.clock import now_ms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surfacelog.processors.projector.applier import Failure
    from surfacelog.processors.projector.patience import PatientRedis
    from surfacelog.projections.keys import Keys
    from surfacelog.projections.redis_calls import Command

FIRST_RETRY_SECONDS: Final = 0.5
LAST_RETRY_SECONDS: Final = 60.0

REBUILD_CODES: Final = frozenset({"lost", "refused"})
"""Failures after which the session's keys are removed and made anew from the log."""

_log = structlog.get_logger()


@dataclass(slots=True)
class ParkedSession:
    """One parked session: at which append it stands, why, since when (ms), how often tried."""

    code: str
    message: str
    seq: int
    offset: int
    since: int
    attempts: int = 0


class ParkedSessions:
    """The parked sessions of the held partitions, in memory and in Redis."""

    def __init__(self, redis: PatientRedis, keys: Keys) -> None:
        self._redis = redis
        self._keys = keys
        self._parked: dict[int, dict[str, ParkedSession]] = {}
        self._due: dict[str, float] = {}
        self._passed: dict[str, int] = {}
        self.changed = asyncio.Event()

    def __len__(self) -> int:
        return sum(map(len, self._parked.values()))

    async def load(self, partition: int) -> None:
        """Take over what Redis keeps as parked in a partition; all of it is due at once."""
        (answer,) = await self._redis.run([("HGETALL", self._keys.parked(partition))])
        members = answer.items() if isinstance(answer, dict) else pairs(answer)
        self._parked[partition] = {
            name.decode(): ParkedSession(**json.loads(text)) for name, text in members
        }
        self._due.update(dict.fromkeys(self._parked[partition], 0.0))
        self.changed.set()

    def keep(self, partitions: set[int]) -> None:
        """Forget partitions that are held no more; Redis keeps their parked sessions."""
        for partition in set(self._parked) - partitions:
            del self._parked[partition]

    def holds(self, partition: int, session_id: str) -> bool:
        """Return whether a session is parked."""
        return session_id in self._parked.get(partition, ())

    def passed(self, session_id: str, offset: int) -> None:
        """Note that an append of a parked session was left to the repair."""
        self._passed[session_id] = max(offset, self._passed.get(session_id, -1))

    def last_passed(self, session_id: str) -> int:
        """Return the offset that the repair must reach before the session goes on."""
        return self._passed.get(session_id, -1)

    async def park(self, partition: int, failures: Mapping[str, Failure]) -> None:
        """Park sessions, before the position may pass the appends at which they stand."""
        commands: list[Command] = []
        for session_id, failure in failures.items():
            known = self._parked.setdefault(partition, {}).get(session_id)
            parked = ParkedSession(*failure, since=known.since if known else now_ms())
            parked.attempts = known.attempts + 1 if known else 0
            self._parked[partition][session_id] = parked
            self._due[session_id] = time.monotonic() + _delay(parked)
            self.passed(session_id, failure.offset)
            commands.append(self._save(partition, session_id, parked))
            _log.warning("session parked", session=session_id, **asdict(parked))
        await self._redis.run(commands)
        self.changed.set()

    def due(self) -> tuple[int, str, ParkedSession] | None:
        """Return a session that is to be tried again now: the one that waited longest."""
        waiting = [
            (self._due.get(session_id, 0.0), partition, session_id)
            for partition, sessions in self._parked.items()
            for session_id in sessions
        ]
        if not waiting or min(waiting)[0] > time.monotonic():
            return None
        _, partition, session_id = min(waiting)
        return partition, session_id, self._parked[partition][session_id]

    async def release(self, partition: int, session_id: str) -> None:
        """Let a session go on: it has caught up with everything that passed it by."""
        self._parked.get(partition, {}).pop(session_id, None)
        self._due.pop(session_id, None)
        self._passed.pop(session_id, None)
        await self._redis.run([("HDEL", self._keys.parked(partition), session_id)])
        _log.info("session goes on", session=session_id)

    def _save(self, partition: int, session_id: str, parked: ParkedSession) -> Command:
        return ("HSET", self._keys.parked(partition), session_id, json.dumps(asdict(parked)))


def _delay(parked: ParkedSession) -> float:
    """Return the seconds until the next try: a gap is filled at once, then with backoff."""
    if parked.attempts == 0:
        return 0.0
    return min(LAST_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2.0 ** min(parked.attempts - 1, 10))
