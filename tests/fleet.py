"""A fleet of agents with seeded traffic that remembers everything it sent."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.session_writer import SessionWriter

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.settings import Settings

PATIENCE = 120.0


@dataclass
class FleetSession:
    """One session, written by one agent turn after turn; `sent[i]` must get seq i."""

    session_id: str
    random: random.Random
    sent: list[JsonObject] = field(default_factory=list)
    appends: int = 0
    turns: int = 0

    async def write(self, writer: SessionWriter, done: asyncio.Event) -> None:
        """Write turns until told to stop, then wait for the last receipt."""
        while not done.is_set():
            await self._turn(writer)
            await asyncio.sleep(self.random.random())
        await writer.flush("committed", timeout=PATIENCE)

    async def _turn(self, writer: SessionWriter) -> None:
        self.turns += 1
        turn: JsonObject = {"turn": self.turns}
        step: JsonObject = {**turn, "step": 1}
        await self._append(writer, _event("turn/start", turn), _event("step/start", step))
        await self._append(writer, self._message("user/message", {"kind": "user"}, "user", {}))
        first = len(self.sent)
        for index in range(self.random.randrange(1, 12)):
            chunk: JsonObject = {"type": "text-delta", "index": 0, "text": f"{index} "}
            self.sent.append(_event("assistant/chunk", {**step, "chunk": chunk}))
            await writer.chunk(self.turns, 1, chunk)
        await self._respond(writer, step, list(range(first, len(self.sent))))
        await self._append(
            writer,
            _event("step/end", step),
            _event("turn/end", {**turn, "reason": {"kind": "completed"}}),
        )

    async def _respond(
        self, writer: SessionWriter, step: JsonObject, sources: list[JsonValue]
    ) -> None:
        """Append the response and, half of the time, the one tool call that it asks for."""
        call = f"call-{self.turns}" if self.random.random() < 0.5 else None
        source: JsonObject = {"kind": "model", "provider": "p", "model": "m"}
        blocks: list[JsonValue] = []
        if call:
            blocks = [{"type": "tool-call", "id": call, "name": "look", "arguments": "{}"}]
        message = self._message("assistant/message", source, "assistant", step, blocks)
        self.sent.append({**message, "sourceEventSeqs": sources})
        self.appends += 1
        await writer.append_response(message)
        if call:
            named: JsonObject = {"callId": call, "name": "look", "arguments": "{}"}
            await self._append(writer, _event("tool/call", {**step, **named}))
            await self._append(writer, self._result(call, step))

    def _message(
        self,
        kind: str,
        source: JsonObject,
        role: str,
        place: JsonObject,
        blocks: list[JsonValue] | None = None,
    ) -> JsonObject:
        text: JsonObject = {"type": "text", "text": f"{self.session_id} {self.random.random()}"}
        message: JsonObject = {
            "id": f"m{len(self.sent)}",
            "role": role,
            "content": [text, *(blocks or [])],
            "source": source,
        }
        return _event(kind, {**place, "message": message} if place else message)

    def _result(self, call: str, step: JsonObject) -> JsonObject:
        block: JsonObject = {
            "type": "tool-result",
            "toolCallId": call,
            "content": [{"type": "text", "text": f"{self.random.random()}"}],
        }
        message: JsonObject = {
            "id": f"m{len(self.sent)}",
            "role": "user",
            "content": [block],
            "source": {"kind": "tool", "callId": call},
        }
        cited: list[JsonValue] = [len(self.sent) - 1]
        return _event("tool/result", {**step, "message": message}) | {"sourceEventSeqs": cited}

    async def _append(self, writer: SessionWriter, *events: JsonObject) -> None:
        self.sent += events
        self.appends += 1
        await writer.append(*events)


@dataclass
class Fleet:
    """`agents` clients of `sessions` sessions each."""

    settings: Settings
    seed: int
    agents: int
    sessions_each: int
    sessions: list[FleetSession] = field(default_factory=list)
    writers: list[SessionWriter] = field(default_factory=list)

    @property
    def unacknowledged(self) -> int:
        """Appends that were sent and have no receipt yet."""
        return sum(writer.unacknowledged for writer in self.writers)

    async def write(self, done: asyncio.Event) -> None:
        """Run all agents until told to stop."""
        async with asyncio.TaskGroup() as agents:
            for number in range(self.agents):
                agents.create_task(self._agent(number, done))

    async def _agent(self, number: int, done: asyncio.Event) -> None:
        client = await AppendClient.connect(self.settings)
        async with client, asyncio.TaskGroup() as sessions:
            for each in range(self.sessions_each):
                session_id = f"agent{number}-{each}"
                seeded = random.Random(f"{self.seed}/{session_id}")
                session = FleetSession(session_id, seeded)
                self.sessions.append(session)
                sessions.create_task(self._session(session, client, done))

    async def _session(
        self, session: FleetSession, client: AppendClient, done: asyncio.Event
    ) -> None:
        async with SessionWriter.open(
            self.settings, session.session_id, client=client, timeout=PATIENCE
        ) as writer:
            self.writers.append(writer)
            await session.write(writer, done)


def _event(kind: str, data: JsonObject) -> JsonObject:
    return {"type": kind, "data": data}
