"""How far each partition is applied: kept in Redis with the projection it belongs to (DESIGN 6).

The position of a partition follows the data by one round trip, so that it never claims what is
not there. When it is missing or lower than it was left, Redis was emptied or restored from an
older state; the partition is then replayed from there. Redis nodes that do not hold the position
itself are watched with a heartbeat each: it remembers the position of its moment, and the
position remembers how far the heartbeat had counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from redis.exceptions import ResponseError

from surfacelog.projections.store import pairs
from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from surfacelog.processors.projector.patience import PatientRedis
    from surfacelog.projections.keys import Keys
    from surfacelog.projections.redis_calls import Command


NO_SESSION: Final = ""
"""The field of the noted watermarks that stands for no session."""


class PositionError(SurfacelogError):
    """A kept position does not belong to this log: other topic, or beyond its end."""

    code = "position"


@dataclass(slots=True)
class Progress:
    """One partition. Everything before `next` is applied; Redis says `stored`.

    While `next` is below `replay_until`, a replay is under way: Redis may lag behind what was
    noted of its sessions.
    """

    next: int
    stored: int
    replay_until: int = 0

    @property
    def replaying(self) -> bool:
        """Whether what Redis lost is being applied again."""
        return self.next < self.replay_until


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What Kafka says of a partition of `events` when it is taken over."""

    topic_id: str
    end: int


class PositionStore:
    """Positions and heartbeats in Redis. `tags` name one hash slot of every node."""

    def __init__(self, redis: PatientRedis, keys: Keys, tags: tuple[str, ...]) -> None:
        self._redis = redis
        self._keys = keys
        self._tags: Final = tags

    async def take(self, partition: int, log: LogEnd) -> int:
        """Return the offset at which a partition must be read on, after noting it as ours.

        Raises PositionError when the kept position belongs to another topic or lies beyond the
        log's end: the log was lost or made anew, and a person must decide.
        """
        kept = await self._kept(partition)
        if kept.get("topic", log.topic_id) != log.topic_id:
            raise PositionError(
                f"partition {partition}: the position in Redis belongs to topic id "
                f"{kept['topic']}, but the log's is {log.topic_id}; run `surfacelog rebuild` if "
                "the topic was made anew on purpose",
                partition=partition,
            )
        offset = await self._surviving(partition, kept)
        if offset > log.end:
            raise PositionError(
                f"partition {partition}: the position {offset} lies beyond the log's end "
                f"{log.end}: the log lost records or is another one",
                partition=partition,
            )
        await self.reset(partition, offset, log.topic_id)
        return offset

    def move(self, partition: int, progress: Progress) -> Command:
        """Return the command that stores `next`, if Redis still holds `stored`."""
        return self._redis.calls.script(
            "position", [self._keys.position(partition)], [progress.stored, progress.next]
        )

    @staticmethod
    def moved(progress: Progress, answer: object) -> int | None:
        """Note what a `move` answered; return where to go back to if Redis lost something.

        A higher answer is no loss: another projector has gone further, or the same command was
        carried out before its answer was lost.
        """
        if isinstance(answer, ResponseError):
            raise answer
        offset = int(answer) if isinstance(answer, bytes) else 0
        if not isinstance(answer, bytes) or offset < progress.stored:
            return offset
        progress.stored = offset
        progress.next = max(progress.next, offset)
        return None

    async def reset(self, partition: int, offset: int, topic_id: str) -> None:
        """Store a position unconditionally. A lower one than others know only costs a replay."""
        await self._redis.run(
            [
                ("HSET", self._keys.position(partition), "offset", offset, "topic", topic_id),
                # A field that is no session: with it, a missing hash means a loss.
                ("HSET", self._keys.watermarks(partition), NO_SESSION, -1),
            ]
        )

    async def beat(self, partition: int, progress: Progress) -> int | None:
        """Count up the heartbeats; return where to go back to if a node lost what it had."""
        kept = await self._kept(partition)
        survived = await self._surviving(partition, kept)
        if survived < min(progress.stored, int(kept.get("offset", 0))):
            return survived
        counts = {tag: int(kept.get(f"beat:{tag}", 0)) + 1 for tag in self._tags}
        # Heartbeats first: what is noted beside the position must have been there.
        await self._redis.run(
            [
                ("HSET", self._keys.heartbeat(tag), partition, f"{count} {progress.next}")
                for tag, count in counts.items()
            ]
        )
        noted = [part for tag, count in counts.items() for part in (f"beat:{tag}", count)]
        await self._redis.run([("HSET", self._keys.position(partition), *noted)])
        return None

    async def _kept(self, partition: int) -> dict[str, str]:
        (answer,) = await self._redis.run([("HGETALL", self._keys.position(partition))])
        if isinstance(answer, dict):
            return {name.decode(): value.decode() for name, value in answer.items()}
        return {name.decode(): value.decode() for name, value in pairs(answer)}

    async def _surviving(self, partition: int, kept: dict[str, str]) -> int:
        """Return the offset before which every node still holds what it was given."""
        offset = int(kept.get("offset", 0))
        noted, *answers = await self._redis.run(
            [
                ("EXISTS", self._keys.watermarks(partition)),
                *(("HGET", self._keys.heartbeat(tag), partition) for tag in self._tags),
            ]
        )
        if not noted:
            return 0
        for tag, answer in zip(self._tags, answers, strict=True):
            count, at = map(int, answer.split()) if answer is not None else (0, 0)
            if count < int(kept.get(f"beat:{tag}", 0)):
                offset = min(offset, at)
        return offset
