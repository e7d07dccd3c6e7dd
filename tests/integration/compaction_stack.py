"""A namespace with sequencer, projector and compactors, and an agent that writes one session."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.live_session import (
    HEADER,
    assistant,
    call,
    result,
    step_end,
    step_start,
    turn_end,
    turn_start,
    user,
)

from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.compaction_client import CompactionClient
from surfacelog.projections.log_reader import LogReader
from surfacelog.projections.messages import derived_message
from surfacelog.projections.reader import SurfaceReader
from surfacelog.projections.redis_calls import RedisCalls, connect_redis
from surfacelog.projections.surface import fold_surface
from surfacelog.schemas.records import AppendRequest, Item, Open
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.processes import Spawner

    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import Receipt
    from surfacelog.schemas.settings import Settings

VISIBLE_SECONDS = 30.0
LONG = "word " * 400


@dataclass
class Stack:
    """Clients of one namespace. `sent` are the last seqs of each session that this test wrote."""

    settings: Settings
    appends: AppendClient
    compactions: CompactionClient
    surface: SurfaceReader
    log: LogReader
    calls: RedisCalls
    epochs: dict[str, int] = field(default_factory=dict)

    async def open(self, session_id: str) -> None:
        receipt = await self._append(session_id, (), Open({**HEADER, "id": session_id}))
        assert receipt.epoch is not None
        self.epochs[session_id] = receipt.epoch

    async def owner(self, session_id: str, *items: Item) -> Receipt:
        """Append as the session's owner and return the receipt, which must not be a refusal."""
        return await self._append(session_id, items, None)

    async def read(self, session_id: str, at_least: int) -> SurfaceCut:
        return await self.surface.read(session_id, at_least=at_least, timeout=VISIBLE_SECONDS)

    async def events(self, session_id: str) -> list[JsonObject]:
        return await asyncio.to_thread(lambda: list(self.log.events(session_id)))

    async def check_surface(self, session_id: str) -> SurfaceCut:
        """Return the Surface in Redis, which must be the fold of the log."""
        events = await self.events(session_id)
        cut = await self.read(session_id, len(events) - 1)
        folded = fold_surface(events)
        assert list(cut.nodes) == folded.nodes
        assert cut.generation == folded.generation
        derived = (derived_message(events[seq]) for seq in folded.nodes)
        assert list(cut.messages) == [message for message in derived if message is not None]
        return cut

    async def _append(
        self, session_id: str, items: tuple[Item, ...], opening: Open | None
    ) -> Receipt:
        request = AppendRequest(
            session_id=session_id,
            writer_id="agent",
            epoch=self.epochs.get(session_id, 0),
            append_seq=0,
            attempt=0,
            role="owner",
            items=items,
            open=opening,
        )
        receipt = await (await self.appends.send(request))
        assert receipt.status != "refused", receipt
        return receipt


@asynccontextmanager
async def connect(settings: Settings) -> AsyncIterator[Stack]:
    codec = await asyncio.to_thread(connect_codec, settings)
    async with AsyncExitStack() as opened:
        calls = RedisCalls(await connect_redis(settings.redis))
        opened.push_async_callback(calls.client.aclose)
        yield Stack(
            settings=settings,
            appends=await opened.enter_async_context(AppendClient(settings, codec)),
            compactions=CompactionClient(settings, codec, calls),
            surface=await opened.enter_async_context(await SurfaceReader.connect(settings)),
            log=LogReader(settings, codec),
            calls=calls,
        )


def start_services(spawn: Spawner) -> None:
    """Start a sequencer and a projector, side by side."""
    started = [spawn(process, ready=None) for process in ("sequencer", "projector")]
    for process in started:
        process.wait_line("ready")


async def write_long_session(stack: Stack, session_id: str) -> int:
    """Write a turn worth compacting and leave the next one open; return the last seq."""
    await stack.open(session_id)
    await stack.owner(session_id, turn_start(), step_start(), user(LONG), assistant("c1"))
    await stack.owner(session_id, call("c1"), result("c1", LONG), step_end(), turn_end())
    receipt = await stack.owner(session_id, turn_start(2), user("go on"))
    assert receipt.last_seq is not None
    await stack.read(session_id, receipt.last_seq)
    return receipt.last_seq
