"""An agent that fills its context window: it reads source files and writes about each.

The other agents of the demo play recordings. This one does what a real agent does with a
SessionWriter; only its model is made up.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from surfacelog.processors.demo.agents import Progress
from surfacelog.processors.demo.patience import PATIENCE_SECONDS, DemoError
from surfacelog.producers.session_writer import SessionWriter
from surfacelog.schemas.json_text import dumps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from surfacelog.processors.demo.noting_client import NotingClient
    from surfacelog.producers.agent_turn import Step, Turn
    from surfacelog.schemas.json_value import JsonObject

PROVIDER: Final = "example"
MODEL: Final = "small-window"
WINDOW: Final = 16_000
"""What the model takes, in tokens."""

SYSTEM: Final = "You review source code. Read each file before you judge it."
TOOLS: Final[list[JsonObject]] = [
    {
        "name": "read_file",
        "description": "Return the beginning of a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    }
]
PLUGIN: Final = "workspace"

FILES: Final = 9
PAGE: Final = 6000
"""Characters of a file that the tool returns: too few for the pruner to take any away. All files
together pass the threshold, 0.8 of the window, and leave room for what is written meanwhile."""

MOST_REMARKS: Final = 60
WORD_SECONDS: Final = 0.08


@dataclass(slots=True)
class Reviewer:
    """Reviews the largest modules of a `folder`, in one turn, until its session was compacted.

    `snapshots` counts how often it had to tell the model about its workspace; `progress` is where
    it says how far it has come.
    """

    session: str
    folder: Path
    client: NotingClient
    progress: dict[str, Progress]
    snapshots: int = 0

    @property
    def workspace(self) -> dict[str, str]:
        """What the model must know all the time, by section."""
        return {"cwd": f"Working directory: {self.folder.name}", "access": "Files are read-only."}

    async def work(self) -> None:
        """Read, be compacted, and go on; DemoError when no compaction comes in time."""
        async with (
            SessionWriter.open(
                self.client.settings, self.session, client=self.client, timeout=PATIENCE_SECONDS
            ) as writer,
            await writer.turn() as turn,
        ):
            async with self._step(turn) as step:
                await self._begin(step)
            for file in self._files():
                async with self._step(turn) as step:
                    await self._read(step, file)
            for number in range(MOST_REMARKS):
                if self.snapshots > 1:
                    break
                async with self._step(turn) as step:
                    await self._say(step, f"Remark {number}: nothing is wrong with these files.")
            else:
                raise DemoError(f"{self.session}: its agent never saw a compaction")
        self._tell(writer)

    @asynccontextmanager
    async def _step(self, turn: Turn) -> AsyncIterator[Step]:
        """Begin a step with what the model has to know, if it does not see it already.

        It sees it no longer when a compaction has taken the last snapshot off the Surface.
        """
        async with turn.step() as step:
            if await turn.writer.ensure_context(PLUGIN, self.workspace) is not None:
                self.snapshots += 1
            yield step

    async def _begin(self, step: Step) -> None:
        await step.user(f"Review the modules of {self.folder.name}/, one after the other.")
        header: JsonObject = {
            "config": {"provider": PROVIDER, "model": MODEL},
            "system": SYSTEM,
            "tools": [*TOOLS],
        }
        await step.request_header(header, "initial")
        context: JsonObject = {"provider": PROVIDER, "model": MODEL, "contextWindow": WINDOW}
        await step.writer.append({"type": "request/context", "data": context})
        await self._say(step, "I start with the largest ones.")

    async def _read(self, step: Step, file: Path) -> None:
        path = f"{self.folder.name}/{file.name}"
        arguments = dumps({"path": path})
        call_id = f"read-{file.stem}"
        await self._stream(step, f"Now {path}.")
        await step.chunk(
            {
                "type": "tool-call-delta",
                "index": 1,
                "id": call_id,
                "name": "read_file",
                "argumentsDelta": arguments,
            }
        )
        await step.assistant(provider=PROVIDER, model=MODEL)
        call = await step.tool_call(call_id, "read_file", arguments)
        text = await asyncio.to_thread(file.read_text)
        await step.tool_result(call, call_id, text[:PAGE])

    async def _say(self, step: Step, text: str) -> None:
        await self._stream(step, text)
        await step.assistant(provider=PROVIDER, model=MODEL)

    async def _stream(self, step: Step, text: str) -> None:
        """Stream a text word by word, at the pace of a model."""
        for word in text.split():
            await step.text(f"{word} ")
            self._tell(step.writer)
            await asyncio.sleep(WORD_SECONDS)

    def _files(self) -> list[Path]:
        by_size = sorted(self.folder.glob("*.py"), key=lambda file: file.stat().st_size)
        return by_size[-FILES:]

    def _tell(self, writer: SessionWriter) -> None:
        sent = self.client.count(self.session)
        self.progress[self.session] = Progress(sent, writer.unacknowledged)
