"""The agent processes as the demo sees them: started, listened to, waited for."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from surfacelog.processors.demo.cast import Part
    from surfacelog.schemas.settings import Settings


class AgentError(SurfacelogError):
    """An agent process ended before it had written its sessions."""

    code = "demo.agent"


@dataclass(frozen=True, slots=True)
class Progress:
    """How many events of a session were sent, and how many appends still wait for a receipt."""

    sent: int
    unacknowledged: int


@dataclass(slots=True)
class Agents:
    """Starts agent processes that play for `seconds`, and keeps what they last said.

    What else they print goes to `log`.
    """

    settings: Settings
    seconds: float
    log: Path
    progress: dict[str, Progress] = field(default_factory=dict)

    @property
    def sent(self) -> int:
        """Events sent by all agents so far."""
        return sum(each.sent for each in self.progress.values())

    @property
    def unacknowledged(self) -> int:
        """Appends that were sent and have no receipt yet."""
        return sum(each.unacknowledged for each in self.progress.values())

    async def play(self, parts: Sequence[Part]) -> None:
        """Run one agent process to its end; raises AgentError when it fails."""
        with self.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "surfacelog.processors.demo.agent", str(self.seconds)),
                *(f"{part.session}={part.file}" for part in parts),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=os.environ | environment(self.settings),
            )
        try:
            await self._listen(process)
            if await process.wait() != 0:
                sessions = ", ".join(part.session for part in parts)
                raise AgentError(
                    f"the agent of {sessions} ended with {process.returncode}: see {self.log}"
                )
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            said = json.loads(line)
            self.progress[said["session"]] = Progress(said["sent"], said["unacknowledged"])


def environment(settings: Settings) -> dict[str, str]:
    """Return the variables that give a child process these settings."""
    return {
        "SURFACELOG_KAFKA": settings.kafka,
        "SURFACELOG_REGISTRY": settings.registry,
        "SURFACELOG_REDIS": settings.redis,
        "SURFACELOG_NAMESPACE": settings.namespace,
    }
