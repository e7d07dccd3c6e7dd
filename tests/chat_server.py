"""A server of the chat-completions protocol on localhost, whose answers a test writes."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surfacelog.projections.summary_sections import SECTIONS, render

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Self

    Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]

SUMMARY = render({name: [f"something about {name.lower()}"] for name in SECTIONS})
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "prompt_tokens_details": {"cached_tokens": 90},
    "completion_tokens_details": {"reasoning_tokens": 5},
}


@dataclass
class Received:
    """One request: its line and headers, its body, and when it came (monotonic seconds)."""

    head: str
    body: bytes
    at: float

    def json(self) -> dict[str, object]:
        read = json.loads(self.body)
        assert isinstance(read, dict)
        return read


@dataclass
class ChatServer:
    """Gives `replies` in order, the last one again and again.

    `asked` is set by the first request, `left` when a client hangs up before its answer is whole.
    """

    replies: list[Reply]
    received: list[Received] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.place = "127.0.0.1:{1}".format(*self._server.sockets[0].getsockname())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @property
    def url(self) -> str:
        return f"http://{self.place}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                int(line.split(":")[1])
                for line in head.splitlines()
                if line.lower().startswith("content-length:")
            )
            body = await reader.readexactly(length)
            reply = self.replies[min(len(self.received), len(self.replies) - 1)]
            self.received.append(Received(head, body, time.monotonic()))
            self.asked.set()
            answering = asyncio.ensure_future(reply(writer))
            leaving = asyncio.ensure_future(reader.read())
            await asyncio.wait([answering, leaving], return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self.left.set()
                answering.cancel()
        finally:
            writer.close()


def says(
    *deltas: dict[str, object], finish: str | None = "stop", pause: float = 0, cut: bool = False
) -> Reply:
    """Stream deltas, `pause` seconds apart; `cut` closes before the end of the body."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        _head(writer, 200, "text/event-stream", "Transfer-Encoding: chunked\r\n")
        for delta in deltas:
            _event(writer, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            await writer.drain()
            await asyncio.sleep(pause)
        if cut:
            return
        if finish is not None:
            _event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
            _event(writer, {"choices": [], "usage": USAGE})
        _chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return reply


def says_text(text: str, **how: object) -> Reply:
    """Stream a text in pieces."""
    pieces = [{"content": text[start : start + 64]} for start in range(0, len(text), 64)]
    return says(*pieces, **how)  # type: ignore[arg-type]  # finish, pause, cut: as `says` has them


def held(until: asyncio.Event, text: str = SUMMARY) -> Reply:
    """Say nothing until the event is set."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        await until.wait()
        await says_text(text)(writer)

    return reply


def held_for(seconds: float, text: str = SUMMARY) -> Reply:
    """Think for so long, then answer at once."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        await says_text(text)(writer)

    return reply


def breaks_with(error: dict[str, object]) -> Reply:
    """Send an error object in a stream that had begun well."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        _head(writer, 200, "text/event-stream", "Transfer-Encoding: chunked\r\n")
        _event(writer, {"choices": [{"index": 0, "delta": {"content": "## Pr"}}]})
        _event(writer, {"error": error})
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    return reply


def answers(
    status: int, body: str = "{}", content_type: str = "application/json", **headers: str
) -> Reply:
    """Answer with a status and a body of any kind."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        _head(writer, status, content_type, f"Content-Length: {len(body.encode())}\r\n{lines}")
        writer.write(body.encode())
        await writer.drain()

    return reply


async def hangs_up(writer: asyncio.StreamWriter) -> None:
    """Close without a word."""
    writer.close()


async def is_silent(_writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


def _head(writer: asyncio.StreamWriter, status: int, content_type: str, more: str) -> None:
    head = f"HTTP/1.1 {status} Whatever\r\nContent-Type: {content_type}\r\nConnection: close\r\n"
    writer.write(f"{head}{more}\r\n".encode())


def _event(writer: asyncio.StreamWriter, data: dict[str, object]) -> None:
    _chunk(writer, f"data: {json.dumps(data)}\n\n".encode())


def _chunk(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
