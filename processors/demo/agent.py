"""One agent process of the demo: plays recorded sessions as their owner, chunk by chunk.

    python -m surfacelog.processors.demo.agent SECONDS SESSION=FILE...

Prints a line of JSON whenever a session gets on: {session, sent, unacknowledged}.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from surfacelog.processors.cli.logs import configure_logs
from surfacelog.processors.cli.output import print_json
from surfacelog.processors.demo.cast import Part, script
from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.session_writer import SessionWriter
from surfacelog.schemas.json_value import int_member, list_member, object_member
from surfacelog.schemas.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.producers.append_handle import AppendHandle
    from surfacelog.schemas.json_value import JsonObject

SAY_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 120.0


class Player:
    """Plays one recording into one session.

    A recording cites its own seqs; in the log the same events may stand elsewhere, since others
    write to the session too. So citations go through the appends that the events became.
    """

    def __init__(self, writer: SessionWriter, events: Sequence[JsonObject], seconds: float) -> None:
        self._writer = writer
        self._events = events
        self._pause = seconds / max(1, len(events))
        self._handles: dict[int, AppendHandle] = {}
        responses = [_sources(event) for event in events if event["type"] == "assistant/message"]
        self._first_chunks = {min(sources) for sources in responses if sources}
        self._said = 0.0

    async def play(self) -> None:
        """Write the whole session, evenly over the seconds, and wait until it is in the log."""
        started = time.monotonic()
        for count, event in enumerate(self._events, start=1):
            await self._write(event)
            self._say(count)
            await asyncio.sleep(max(0.0, started + count * self._pause - time.monotonic()))
        await self._writer.flush("committed", timeout=PATIENCE_SECONDS)
        self._said = 0.0
        self._say(len(self._events))

    async def _write(self, event: JsonObject) -> None:
        # The log gets the time of today; everything else is the recording's.
        live = {name: value for name, value in event.items() if name not in ("seq", "time")}
        data = object_member(event, "data")
        if event["type"] == "assistant/chunk":
            if event["seq"] in self._first_chunks:
                await self._writer.restart_response()  # a failed attempt may have come before
            place = int_member(data, "turn") or 0, int_member(data, "step") or 0
            await self._writer.chunk(*place, object_member(data, "chunk"))
            return
        if event["type"] == "assistant/message" and "sourceEventSeqs" in event:
            handle = await self._writer.append_response(live)
        else:
            if "sourceEventSeqs" in event:
                live["sourceEventSeqs"] = [await self._now(seq) for seq in _sources(event)]
            handle = await self._writer.append(live)
        self._handles[int_member(event, "seq") or 0] = handle

    async def _now(self, recorded: int) -> int:
        """Return where the event with a recorded seq stands in the log."""
        return (await self._handles[recorded].committed())[0]

    def _say(self, sent: int) -> None:
        now = time.monotonic()
        if now - self._said < SAY_SECONDS:
            return
        self._said = now
        print_json(
            {
                "session": self._writer.session_id,
                "sent": sent,
                "unacknowledged": self._writer.unacknowledged,
            }
        )


def _sources(event: JsonObject) -> list[int]:
    return [seq for seq in list_member(event, "sourceEventSeqs") if isinstance(seq, int)]


async def play_all(settings: Settings, parts: Sequence[Part], seconds: float) -> None:
    """Play several sessions at the same time over one client."""

    async def play(part: Part, client: AppendClient) -> None:
        async with SessionWriter.open(
            settings, part.session, client=client, timeout=PATIENCE_SECONDS
        ) as writer:
            await Player(writer, script(part), seconds).play()

    client = await AppendClient.connect(settings)
    async with client, asyncio.TaskGroup() as sessions:
        for part in parts:
            sessions.create_task(play(part, client))


def _parse(argument: str) -> Part:
    session, _, file = argument.partition("=")
    return Part(session, Path(file))


if __name__ == "__main__":
    configure_logs()
    asyncio.run(play_all(Settings(), [_parse(each) for each in sys.argv[2:]], float(sys.argv[1])))
