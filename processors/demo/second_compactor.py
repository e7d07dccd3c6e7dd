"""A compactor that dies in the middle of its first compaction, so that another has to take over."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from surfacelog.processors.demo.agents import environment
from surfacelog.processors.demo.patience import PATIENCE_SECONDS, DemoError, until

if TYPE_CHECKING:
    from pathlib import Path

    from surfacelog.schemas.settings import Settings

FATE: Final = {
    "SURFACELOG_FAILPOINT": "compactor-started",  # kill -9 when its compaction/start is in the log
    "SURFACELOG_COMPACTOR_LOCK_SECONDS": "2",  # so long it keeps others out when it is dead
}


@dataclass(slots=True)
class SecondCompactor:
    """One more compactor of the namespace, its output in `log`.

    As an async context manager it leaves no process behind.
    """

    settings: Settings
    log: Path
    _partitions: set[int] = field(default_factory=set)
    _process: asyncio.subprocess.Process | None = None
    _listening: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "surfacelog.processors.cli.main", "run", "compactor"),
            "--lifeline",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=os.environ | environment(self.settings) | FATE,
            start_new_session=True,  # Ctrl-C reaches the demo alone
        )
        self._listening = asyncio.create_task(self._listen(self._process))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._listening is not None
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        await self._listening

    async def joined(self) -> set[int]:
        """Return its partitions as soon as it shares them with the first compactor."""
        await until(
            "the second compactor gets its share of the partitions",
            lambda: 0 < len(self._partitions) < self.settings.partitions,
        )
        return self._partitions

    async def died(self) -> None:
        """Return when it was killed; DemoError when it was not, or ended otherwise."""
        assert self._process is not None
        try:
            status = await asyncio.wait_for(self._process.wait(), PATIENCE_SECONDS)
        except TimeoutError:
            raise DemoError("the second compactor was never killed in a compaction") from None
        if status != -signal.SIGKILL:
            raise DemoError(f"the second compactor ended with {status}: see {self.log}")

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        with self.log.open("ab", buffering=0) as log:
            async for line in process.stdout:
                log.write(b"compactor2 | " + line)
                if b'"partitions assigned"' in line:
                    self._partitions = set(json.loads(line)["partitions"])
