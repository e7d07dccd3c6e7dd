"""A session as its owner sees it: what is visible of it, and the compactions it asks for."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from surfacelog.producers.compaction_client import CompactionClient
from surfacelog.projections.compaction_policy import configured_policies
from surfacelog.projections.reader import SurfaceReader
from surfacelog.projections.redis_calls import RedisCalls, connect_redis
from surfacelog.projections.visibility import while_redis_is_away
from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from surfacelog.producers.append_client import AppendClient
    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.projections.visibility import TimeLimit
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.records import Trigger

READ_SECONDS: Final = 30.0


class OverflowPersists(SurfacelogError):  # noqa: N818  # it says what happened
    """A request to the model overflows although the session was compacted for it."""

    code: ClassVar[str] = "overflow"


class _Connections(NamedTuple):
    reader: SurfaceReader
    compactions: CompactionClient


class OwnSurface:
    """The visible side of one session of an `AppendClient`; connects when it is first needed."""

    def __init__(self, client: AppendClient, session_id: str) -> None:
        self._client = client
        self._session_id = session_id
        self._opened = AsyncExitStack()
        self._connections: _Connections | None = None
        self._overflows = 0

    async def wait_visible(self, seq: int, limit: TimeLimit) -> int:
        """Return the watermark as soon as it is at least `seq`, however often Redis is away.

        Raises VisibilityTimeout, and RedisUnavailableError when it is still away in the end.
        """

        async def wait() -> int:
            reader, _ = await self._connect()
            return await reader.wait_visible(self._session_id, seq, max(limit.left, 0))

        return await while_redis_is_away(wait, limit)

    async def read(self, at_least: int) -> SurfaceCut:
        """Return the Surface; raises what `SurfaceReader.read` raises."""
        reader, _ = await self._connect()
        return await reader.read(self._session_id, at_least=at_least, timeout=READ_SECONDS)

    async def compact(
        self, trigger: Trigger, requested_by: str, at_least: int, limit: TimeLimit
    ) -> CompactionOutcome:
        """Ask for a compaction and follow it; see `SessionWriter.request_compaction`."""
        cut = await self.read(at_least)
        if trigger == "context-overflow":
            self._count_overflow(cut)
        _, compactions = await self._connect()
        request = await compactions.request(
            self._session_id, generation=cut.generation, requested_by=requested_by, trigger=trigger
        )
        outcome = await compactions.outcome(request, max(limit.left, 0))
        if outcome.checkpoint_seq is not None:
            await self.wait_visible(outcome.checkpoint_seq, limit)
        return outcome

    def answered(self) -> None:
        """Note that the model has answered: its next request may overflow anew."""
        self._overflows = 0

    async def close(self) -> None:
        """Close the connections."""
        await self._opened.aclose()

    def _count_overflow(self, cut: SurfaceCut) -> None:
        policy = configured_policies(self._client.settings).in_force(cut.header)
        if self._overflows >= policy.max_overflow_retries:
            raise OverflowPersists(
                f"{self._session_id}: the request to the model overflows, and was compacted for"
                f" {self._overflows} times already: what is left is too long by itself",
                session=self._session_id,
            )
        self._overflows += 1

    async def _connect(self) -> _Connections:
        if self._connections is None:
            settings = self._client.settings
            reader = await self._opened.enter_async_context(await SurfaceReader.connect(settings))
            calls = RedisCalls(await connect_redis(settings.redis))
            self._opened.push_async_callback(calls.client.aclose)
            compactions = CompactionClient(settings, self._client.codec, calls)
            self._connections = _Connections(reader, compactions)
        return self._connections
