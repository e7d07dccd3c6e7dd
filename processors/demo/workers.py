"""Sequencer, projector and compactor under their supervisor, as the demo runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Final, Self

from surfacelog.processors.demo.agents import environment

if TYPE_CHECKING:
    from pathlib import Path

    from surfacelog.schemas.settings import Settings

STOP_SECONDS: Final = 30.0


@dataclass(slots=True)
class Workers:
    """`surfacelog run all` of one namespace, its output in `log`.

    As a context manager it stops the workers at the end, unless `keep` was set meanwhile.
    """

    settings: Settings
    log: Path
    keep: bool = False
    _process: subprocess.Popen[bytes] | None = None
    _output: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self._output = self.log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "surfacelog.processors.cli.main", "run", "all"],
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            env=os.environ | environment(self.settings),
            start_new_session=True,  # Ctrl-C reaches the demo, which then stops them in order
        )
        return self

    def __exit__(self, kind: object, error: object, at: object) -> None:
        assert self._process is not None
        assert self._output is not None
        self._output.close()
        if self.keep and kind is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def pid(self) -> int:
        """The supervisor's process id."""
        assert self._process is not None
        return self._process.pid

    def kill_sequencer(self) -> int:
        """Kill the running sequencer as a power cut would; return the pid that it had."""
        # The supervisor notes each start of a process in its log.
        starts = [
            line for line in self.log.read_text().splitlines() if '"event": "started"' in line
        ]
        notes = [json.loads(line[line.index("{") :]) for line in starts]
        pid = int([note["pid"] for note in notes if note.get("process") == "sequencer"][-1])
        os.kill(pid, signal.SIGKILL)
        return pid
