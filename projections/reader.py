"""Reading a session's Surface: one consistent cut, and waiting for a seq (DESIGN 5, 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError, ResponseError

from surfacelog.projections.keys import Keys
from surfacelog.projections.meter import Meter, MeterError
from surfacelog.projections.pressure import PressureFacts
from surfacelog.projections.redis_calls import RedisCalls, RedisUnavailableError, connect_redis
from surfacelog.projections.store import pairs
from surfacelog.projections.visibility import (
    RECHECK_SECONDS,
    TimeLimit,
    Visibility,
    VisibilityTimeout,
    wait_at_most,
)
from surfacelog.schemas.errors import CorruptLogError, NotFoundError, ServiceError
from surfacelog.schemas.json_text import loads

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from surfacelog.projections.redis_calls import RedisClient
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings


@dataclass(frozen=True, slots=True)
class Tokens:
    """The meter's figures (SEMANTICS 4). `total` and `baseline` are None with a `reason` where
    the log does not allow a measurement; `surface` and `header` are prices by the rule of thumb.
    """

    surface: int
    header: int
    total: int | None
    baseline: int | None
    reason: str | None = None

    def to_json(self) -> JsonObject:
        """Return the figures as commands print them; a `reason` only where one is needed."""
        shown: JsonObject = {
            "surface": self.surface,
            "header": self.header,
            "total": self.total,
            "baseline": self.baseline,
        }
        return shown if self.reason is None else {**shown, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class SurfaceCut:
    """A session as of one seq, all parts of the same moment.

    `nodes` and `prices` go together; `messages` has one message less for every empty assistant
    node. `open_turn` and `open_step` are None between turns and steps, `open_compaction` is the
    id of the bracket that is open, and `open_compaction_seq` the seq of its compaction/start.
    `pressure` is what the log says of the session's compactions.
    """

    session_id: str
    as_of_seq: int
    generation: int
    tokens: Tokens
    nodes: tuple[int, ...]
    messages: tuple[JsonObject, ...]
    prices: tuple[int, ...]
    header: JsonObject | None
    context: JsonObject | None
    open_turn: int | None
    open_step: int | None
    open_compaction: str | None
    epoch: int
    loading: bool = False
    open_compaction_seq: int | None = None
    pressure: PressureFacts = field(default_factory=PressureFacts)


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """A line of the directory. `events` is the log's length as projected, `last_activity` ms UTC;
    `status` is loading, compacting, running (a turn is open) or idle.
    """

    session_id: str
    events: int
    generation: int
    tokens: Tokens
    last_activity: int
    status: str


class SurfaceReader:
    """Reads the Surface of sessions from Redis. Use it as an async context manager, or close it."""

    def __init__(self, client: RedisClient, namespace: str) -> None:
        self._client = client
        self._keys = Keys(namespace)
        self._calls = RedisCalls(client)
        self._visibility = Visibility(client, self._keys)

    @classmethod
    async def connect(cls, settings: Settings) -> SurfaceReader:
        """Return a reader with a connection of its own; raises ServiceError."""
        return cls(await connect_redis(settings.redis), settings.namespace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._visibility.close()
        await self._client.aclose()

    async def read(
        self,
        session_id: str,
        *,
        at_least: int | None = None,
        timeout: float = 10.0,  # noqa: ASYNC109  # the error says what was visible in time
    ) -> SurfaceCut:
        """Return the session now, or as soon as it includes the seq `at_least`.

        Raises NotFoundError when nothing of the session is known and no seq was asked for,
        VisibilityTimeout when the seq, or a session under repair, is not there in time,
        ServiceError when Redis does not answer.
        """
        limit = TimeLimit(timeout)
        if at_least is not None:
            await self._wait_or_report(session_id, at_least, limit)
        while True:
            cut = await self._read(session_id)
            if cut is not None and (at_least is None or cut.as_of_seq >= at_least):
                return cut
            if at_least is None and cut is None and not await self._is_listed(session_id):
                raise NotFoundError(f"no session {session_id!r} is visible", session=session_id)
            await self._wait_for_repair(session_id, at_least or 0, limit)

    async def wait_visible(
        self,
        session_id: str,
        seq: int,
        timeout: float,  # noqa: ASYNC109  # as in `read`
    ) -> int:
        """Return the watermark as soon as it is at least `seq`; raises VisibilityTimeout."""
        try:
            return await self._visibility.wait(session_id, seq, timeout)
        except (RedisError, OSError) as error:
            raise RedisUnavailableError(f"Redis does not answer: {error}") from error

    async def sessions(self, limit: int) -> list[SessionEntry]:
        """Return up to `limit` sessions, the one that was active last first."""
        listed = await self._calls.one(("ZREVRANGE", self._keys.directory, 0, limit - 1))
        ids = [session_id.decode() for session_id in listed]
        answers = await self._calls.run([("HGETALL", self._keys.session(s, "m")) for s in ids])
        return [
            _entry(session_id, fields)
            for session_id, fields in zip(ids, map(_fields, answers), strict=True)
            if fields
        ]

    async def inbox(self, session_id: str) -> list[JsonObject]:
        """Return the posts that wait to be claimed, as events of the log, the oldest first."""
        posts = await self._calls.one(("HVALS", self._keys.session(session_id, "i")))
        events = [loads(post.decode()) for post in posts]
        return sorted((e for e in events if isinstance(e, dict)), key=lambda e: e["seq"])  # type: ignore[arg-type, return-value]  # the projector writes integers

    async def _read(self, session_id: str) -> SurfaceCut | None:
        """Return the cut; None when it is missing, or when a part of it is."""
        keys = self._keys.session_keys(session_id)
        answer = await self._calls.one(self._calls.script("read", keys, []))
        fields = _fields(answer[0])
        return _cut(session_id, fields, answer[1:]) if fields else None

    async def _is_listed(self, session_id: str) -> bool:
        score = await self._calls.one(("ZSCORE", self._keys.directory, session_id))
        return score is not None

    async def _wait_or_report(self, session_id: str, seq: int, limit: TimeLimit) -> None:
        """Wait for a seq; a session that takes long is checked for lost keys meanwhile."""
        try:
            await self.wait_visible(session_id, seq, min(limit.seconds, RECHECK_SECONDS))
        except VisibilityTimeout:
            await self._calls.one(("SADD", self._keys.suspects, session_id))
            await self.wait_visible(session_id, seq, max(0.0, limit.left))

    async def _wait_for_repair(self, session_id: str, seq: int, limit: TimeLimit) -> None:
        """Tell the projector that keys are missing, and wait until it has written again."""
        if limit.left <= 0:
            watermark = await self._visibility.watermark(session_id)
            raise VisibilityTimeout(session_id, seq, watermark, limit.seconds)
        await self._calls.one(("SADD", self._keys.suspects, session_id))
        async with self._visibility.watching(session_id) as woken:
            await wait_at_most(woken, min(limit.left, RECHECK_SECONDS))


def _cut(session_id: str, fields: dict[str, str], parts: Sequence[Any]) -> SurfaceCut | None:
    seqs, texts, priced, header, context = parts
    nodes = tuple(map(int, seqs))
    prices = {int(seq): int(price) for seq, price in pairs(priced)}
    messages = {int(seq): _object(text) for seq, text in pairs(texts)}
    sizes = (len(nodes), len(messages))
    if sizes != (int(fields.get("nodes", 0)), int(fields.get("messages", 0))):
        return None
    if not prices.keys() >= set(nodes) or ("header_seq" in fields) != (header is not None):
        return None
    return SurfaceCut(
        session_id=session_id,
        as_of_seq=int(fields["watermark"]),
        generation=int(fields.get("generation", 0)),
        tokens=_tokens(fields),
        nodes=nodes,
        messages=tuple(messages[seq] for seq in nodes if seq in messages),
        prices=tuple(prices[seq] for seq in nodes),
        header=None if header is None else _object(header),
        context=None if context is None else _object(context),
        open_turn=_number(fields, "turn"),
        open_step=_number(fields, "step"),
        open_compaction=fields.get("compaction") or None,
        epoch=int(fields.get("epoch", 0)),
        loading=fields.get("loading") == "1",
        open_compaction_seq=_number(fields, "compaction_seq") if fields.get("compaction") else None,
        pressure=_pressure(fields),
    )


def _pressure(fields: dict[str, str]) -> PressureFacts:
    text = fields.get("pressure")
    return PressureFacts() if text is None else PressureFacts.from_json(loads(text))


def _tokens(fields: dict[str, str]) -> Tokens:
    meter = Meter.from_json(loads(fields["meter"])) if "meter" in fields else Meter()
    try:
        measured = meter.measure()
    except MeterError as error:
        return Tokens(meter.surface, meter.header, None, None, error.message)
    return Tokens(meter.surface, meter.header, measured.total, measured.baseline)


def _entry(session_id: str, fields: dict[str, str]) -> SessionEntry:
    if fields.get("loading") == "1":
        status = "loading"
    elif fields.get("compaction"):
        status = "compacting"
    else:
        status = "running" if fields.get("turn") else "idle"
    return SessionEntry(
        session_id,
        events=int(fields["watermark"]) + 1,
        generation=int(fields.get("generation", 0)),
        tokens=_tokens(fields),
        last_activity=int(fields.get("activity", 0)),
        status=status,
    )


def _fields(answer: Any) -> dict[str, str]:
    if isinstance(answer, ResponseError):
        raise ServiceError(f"Redis refused a read: {answer}") from answer
    members = answer.items() if isinstance(answer, dict) else pairs(answer)
    return {name.decode(): value.decode() for name, value in members}


def _number(fields: dict[str, str], name: str) -> int | None:
    return int(fields[name]) if fields.get(name) else None


def _object(text: bytes) -> JsonObject:
    value = loads(text.decode())
    if not isinstance(value, dict):
        raise CorruptLogError(f"Redis holds {text[:40]!r} where an object is expected")
    return value
