"""The agent loop in the words of the log: turns, steps, messages, tool calls (SEMANTICS 2).

Thin: every method appends one event, or streams a chunk, with the right turn and step in it.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

from surfacelog.projections.assembly import BlockAssembler
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.schemas.json_value import int_member
from surfacelog.schemas.records import ChunkRun

if TYPE_CHECKING:
    from typing import Self

    from surfacelog.producers.append_client import AppendClient
    from surfacelog.producers.append_handle import AppendHandle
    from surfacelog.producers.session_writer import SessionWriter
    from surfacelog.schemas.json_value import JsonObject, JsonValue


class Turn:
    """One turn; `async with` starts it and ends it `completed`.

    An exception leaves it open, as a crash would: the next `open` of the session closes it.
    """

    def __init__(self, writer: SessionWriter, number: int) -> None:
        self.writer = writer
        self.number = number
        self.reason: JsonObject = {"kind": "completed"}
        self._steps = 0

    async def __aenter__(self) -> Self:
        await self.writer.append({"type": "turn/start", "data": {"turn": self.number}})
        return self

    async def __aexit__(self, kind: object, error: object, at: object) -> None:
        if kind is None:
            data: JsonObject = {"turn": self.number, "reason": self.reason}
            await self.writer.append({"type": "turn/end", "data": data})

    def step(self) -> Step:
        """Return the next step, to be used as an async context manager."""
        self._steps += 1
        return Step(self.writer, self.number, self._steps)


class Step:
    """One step of a turn; `async with` starts and ends it. An exception leaves it open."""

    def __init__(self, writer: SessionWriter, turn: int, number: int) -> None:
        self.writer = writer
        self.number = number
        self._place: JsonObject = {"turn": turn, "step": number}
        self._turn = turn
        self._stream = BlockAssembler()
        self._response = writer.response

    async def __aenter__(self) -> Self:
        await self.writer.append({"type": "step/start", "data": dict(self._place)})
        # What an earlier step streamed and never answered with is not this one's to cite.
        await self.writer.restart_response()
        return self

    async def __aexit__(self, kind: object, error: object, at: object) -> None:
        if kind is None:
            await self.writer.append({"type": "step/end", "data": dict(self._place)})

    async def user(self, message: str | JsonObject) -> AppendHandle:
        """Append a user message: its text, or the whole message as in SEMANTICS 1."""
        if isinstance(message, str):
            message = {
                "id": _new_id(),
                "role": "user",
                "content": [{"type": "text", "text": message}],
                "source": {"kind": "user"},
            }
        return await self.writer.append({"type": "user/message", "data": message})

    async def request_header(self, header: JsonObject, reason: str = "change") -> AppendHandle:
        """Record system prompt, tools and call config as the model is about to see them.

        `reason` is initial, resume or change.
        """
        data: JsonObject = {"header": header, "reason": reason}
        return await self.writer.append({"type": "request/header", "data": data})

    async def text(self, delta: str, index: int = 0) -> None:
        """Stream a piece of the answer's text."""
        await self.chunk({"type": "text-delta", "index": index, "text": delta})

    async def chunk(self, chunk: JsonObject) -> None:
        """Stream any chunk of the response (SEMANTICS 1, "stream chunk")."""
        self._streamed().push(chunk)
        await self.writer.chunk(self._turn, self.number, chunk)

    async def assistant(
        self,
        *,
        provider: str,
        model: str,
        content: list[JsonObject] | None = None,
        usage: JsonObject | None = None,
    ) -> AppendHandle:
        """Append the response, citing its streamed chunks; `content` defaults to their blocks."""
        stream = self._streamed()
        blocks: list[JsonValue] = list(stream.blocks() if content is None else content)
        used = stream.usage if usage is None else usage
        message: JsonObject = {
            "id": _new_id(),
            "role": "assistant",
            "content": blocks,
            "source": {"kind": "model", "provider": provider, "model": model},
        }
        data: JsonObject = {**self._place, "message": message}
        if used is not None:
            data["usage"] = used
        return await self.writer.append_response({"type": "assistant/message", "data": data})

    async def tool_call(self, call_id: str, name: str, arguments: str) -> AppendHandle:
        """Record that a call of the response is carried out now; `arguments` is JSON text."""
        data: JsonObject = {**self._place, "callId": call_id, "name": name, "arguments": arguments}
        return await self.writer.append({"type": "tool/call", "data": data})

    async def tool_result(
        self, call: AppendHandle, call_id: str, text: str, *, is_error: bool = False
    ) -> AppendHandle:
        """Append a call's result, citing the call. Waits until the call is committed."""
        (cited,) = await call.committed()
        block: JsonObject = {
            "type": "tool-result",
            "toolCallId": call_id,
            "content": [{"type": "text", "text": text}],
            "isError": is_error,
        }
        message: JsonObject = {
            "id": _new_id(),
            "role": "user",
            "content": [block],
            "source": {"kind": "tool", "callId": call_id},
        }
        return await self.writer.append(
            {
                "type": "tool/result",
                "data": {**self._place, "message": message},
                "sourceEventSeqs": [cited],
            }
        )

    def _streamed(self) -> BlockAssembler:
        """Return the blocks of the writer's present response: it drops one behind a refusal."""
        if self._response != self.writer.response:
            self._stream, self._response = BlockAssembler(), self.writer.response
        return self._stream


async def last_turn(client: AppendClient, session_id: str) -> int:
    """Return the number of the last turn in the log of a session, 0 for none."""
    reader = LogReader(client.settings, client.codec, SessionIndex(client.settings))
    return await asyncio.to_thread(_last_turn, reader, session_id)


def _last_turn(reader: LogReader, session_id: str) -> int:
    last = 0
    for _, batch in reader.batches(session_id):
        for item in batch.items:
            if not isinstance(item, ChunkRun) and item["type"] == "turn/start":
                last = int_member(item["data"], "turn") or last
    return last


def _new_id() -> str:
    return uuid.uuid4().hex
