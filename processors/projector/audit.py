"""Looks for sessions whose keys were lost while nothing is written to them (DESIGN 6).

A live session notices at its next append, a lost node by its heartbeat, an emptied Redis by the
missing position. What is left are single sessions at rest whose keys someone removed. Beside
the position, the projector notes how far it has brought every session; each second it compares
a part of the sessions with that, and at once those that a reader found incomplete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from surfacelog.processors.projector.applier import Failure
from surfacelog.processors.projector.positions import NO_SESSION
from surfacelog.projections.store import pairs
from surfacelog.schemas.topics import partition_of

if TYPE_CHECKING:
    from surfacelog.processors.projector.applier import Applier
    from surfacelog.processors.projector.parked import ParkedSessions
    from surfacelog.processors.projector.partitions import Partitions
    from surfacelog.processors.projector.patience import PatientRedis
    from surfacelog.projections.redis_calls import Command
    from surfacelog.projections.store import AuditOutcome, SurfaceStore

SESSIONS_PER_TICK: Final = 500


class Audit:
    """Notes watermarks and checks sessions against them. The caller holds `Partitions.turn`."""

    def __init__(
        self,
        partitions: Partitions,
        parked: ParkedSessions,
        applier: Applier,
        store: SurfaceStore,
        redis: PatientRedis,
        partition_count: int,
    ) -> None:
        self._partitions = partitions
        self._parked = parked
        self._applier = applier
        self._store = store
        self._redis = redis
        self._count = partition_count
        self._cursors: dict[int, int] = {}

    async def note(self) -> None:
        """Note how far each session was brought since the last time, and list its activity."""
        keys = self._store.keys
        commands: list[Command] = []
        for partition in self._partitions.events:
            touched = self._applier.touched.pop(partition, {})
            if not touched:
                continue
            noted = [part for s, seen in touched.items() for part in (s, seen.watermark)]
            commands.append(("HSET", keys.watermarks(partition), *noted))
            commands += [self._store.active(s, seen.activity) for s, seen in touched.items()]
        await self._redis.run(commands)

    async def check_next(self) -> None:
        """Check the next sessions of every partition that is not being replayed, and suspects."""
        whole = [p for p, held in self._partitions.events.items() if not held.replaying]
        suspects = await self._suspects(set(whole))
        for partition in whole:
            cursor = self._cursors.get(partition, 0)
            count = max(1, SESSIONS_PER_TICK // len(whole))
            (answer,) = await self._redis.run(
                [("HSCAN", self._store.keys.watermarks(partition), cursor, "COUNT", count)]
            )
            self._cursors[partition], noted = int(answer[0]), _noted(answer[1])
            await self._check(partition, noted | suspects.get(partition, {}))

    async def _suspects(self, partitions: set[int]) -> dict[int, dict[str, int]]:
        """Return what was noted of the sessions that readers suspect, by partition."""
        keys = self._store.keys
        (members,) = await self._redis.run([("SMEMBERS", keys.suspects)])
        placed = {s: partition_of(s, self._count) for s in (m.decode() for m in members)}
        ours = [(s, partition) for s, partition in placed.items() if partition in partitions]
        answers = await self._redis.run([("HGET", keys.watermarks(p), s) for s, p in ours])
        await self._redis.run([("SREM", keys.suspects, s) for s, _ in ours])
        suspects: dict[int, dict[str, int]] = {}
        for (session_id, partition), watermark in zip(ours, answers, strict=True):
            if watermark is not None:
                suspects.setdefault(partition, {})[session_id] = int(watermark)
        return suspects

    async def _check(self, partition: int, noted: dict[str, int]) -> None:
        checked = [s for s in noted if s != NO_SESSION and not self._parked.holds(partition, s)]
        answers = await self._redis.run([self._store.audit(s, noted[s]) for s in checked])
        outcomes = dict(zip(checked, map(self._store.audited, answers), strict=True))
        failures = {
            s: _failure(outcome, noted[s]) for s, outcome in outcomes.items() if outcome.reason
        }
        for session_id in failures:
            self._applier.forget(session_id)
        await self._parked.park(partition, failures)
        # The directory has no other witness: whoever is whole is listed again.
        seen = {s: o.activity for s, o in outcomes.items() if o.activity is not None}
        await self._redis.run([self._store.active(s, activity) for s, activity in seen.items()])


def _failure(outcome: AuditOutcome, watermark: int) -> Failure:
    code = "behind" if outcome.reason == "watermark went back" else "lost"
    return Failure(code, outcome.reason, watermark, -1)


def _noted(answer: Any) -> dict[str, int]:
    members = answer.items() if isinstance(answer, dict) else pairs(answer)
    return {name.decode(): int(value) for name, value in members}
