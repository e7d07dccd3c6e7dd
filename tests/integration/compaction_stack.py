"""A namespace with sequencer, projector and compactors, and an agent that writes one session."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
from tests.processes import environment_of
from tests.sequencing import Bus

from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.compaction_client import CompactionClient
from surfacelog.projections.log_reader import LogReader
from surfacelog.projections.messages import derived_message
from surfacelog.projections.reader import SurfaceReader
from surfacelog.projections.redis_calls import RedisCalls, connect_redis
from surfacelog.projections.surface import fold_surface
from surfacelog.projections.visibility import wait_at_most
from surfacelog.schemas.json_value import member
from surfacelog.schemas.records import AppendRequest, CompactionRequest, Item, Open
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.chat_server import ChatServer
    from tests.processes import Spawned, Spawner

    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import Receipt
    from surfacelog.schemas.settings import Settings

VISIBLE_SECONDS = 30.0
OUTCOME_SECONDS = 60.0
COMMAND_SECONDS = 90.0
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
    codec: Codec
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

    async def ask(self, session_id: str) -> CompactionRequest:
        """Ask for a compaction of all but the last node."""
        cut = await self.surface.read(session_id)
        return await self.compactions.request(
            session_id, generation=cut.generation, requested_by="test"
        )

    async def outcome(self, request: CompactionRequest) -> CompactionOutcome:
        return await self.compactions.outcome(request, OUTCOME_SECONDS)

    async def refusals(self, session_id: str) -> list[str | None]:
        """Return the codes of all refused appends of a session."""
        bus = Bus(self.settings, self.codec)
        receipts = await asyncio.to_thread(bus.receipts)
        return [r.code for r in receipts if (r.session_id, r.status) == (session_id, "refused")]

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
            codec=codec,
        )


def start_services(spawn: Spawner) -> tuple[Spawned, Spawned]:
    """Start a sequencer and a projector, side by side, and return them."""
    sequencer, projector = (spawn(name, ready=None) for name in ("sequencer", "projector"))
    for process in (sequencer, projector):
        process.wait_line("ready")
    return sequencer, projector


def asking(server: ChatServer) -> dict[str, str]:
    """Return the variables that let a compactor ask this model."""
    return {
        "SURFACELOG_SUMMARIZER": "openai",
        "SURFACELOG_SUMMARIZER_URL": server.url,
        "SURFACELOG_SUMMARIZER_MODEL": "m-1",
    }


async def line(process: Spawned, text: str) -> None:
    """Wait for a line of a process; the test's own servers go on meanwhile."""
    await asyncio.to_thread(process.wait_line, text, OUTCOME_SECONDS)


async def command(settings: Settings, *arguments: str) -> tuple[int, Any]:
    """Run a command with --json; return its status and the JSON value that it prints."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "surfacelog.processors.cli.main", *arguments, "--json"],
        env=environment_of(settings),
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    return done.returncode, json.loads(done.stdout or done.stderr.splitlines()[-1])


async def eventually(true: Callable[[], Awaitable[bool]], seconds: float = OUTCOME_SECONDS) -> None:
    """Return when the condition holds; TimeoutError when it does not in time."""
    async with asyncio.timeout(seconds):
        while not await true():
            await wait_at_most(asyncio.Event(), 0.05)


def data_of(events: list[JsonObject], kind: str) -> list[JsonValue]:
    return [event["data"] for event in events if event["type"] == kind]


def end_classes(events: list[JsonObject]) -> list[JsonValue]:
    """Return the errorClass of every compaction/end; None for a compaction that landed."""
    return [member(data, "errorClass") for data in data_of(events, "compaction/end")]


async def write_long_session(stack: Stack, session_id: str) -> int:
    """Write a turn worth compacting and leave the next one open; return the last seq."""
    await stack.open(session_id)
    await stack.owner(session_id, turn_start(), step_start(), user(LONG), assistant("c1"))
    await stack.owner(session_id, call("c1"), result("c1", LONG), step_end(), turn_end())
    receipt = await stack.owner(session_id, turn_start(2), user("go on"))
    assert receipt.last_seq is not None
    await stack.read(session_id, receipt.last_seq)
    return receipt.last_seq
