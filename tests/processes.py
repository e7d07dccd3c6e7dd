"""Processes that belong to one test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

from surfacelog.processors.cli.run import PROCESSES

if TYPE_CHECKING:
    from pathlib import Path

    from surfacelog.schemas.settings import Settings

LINE_SECONDS = 90.0
"""A process takes 3 s to start, and did not in 30 s on a machine that ran a second suite."""


class Spawned:
    """A running process whose output is collected, so that tests can wait for a line of it."""

    def __init__(self, process: subprocess.Popen[str], name: str) -> None:
        self.process = process
        self.name = name
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._ended = False
        threading.Thread(target=self._collect, daemon=True).start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait_line(self, text: str, timeout: float = LINE_SECONDS, *, count: int = 1) -> str:
        """Return the `count`-th line that contains `text`; fail when it does not come in time."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while len(found := [line for line in self.lines if text in line]) < count:
                left = deadline - time.monotonic()
                if left <= 0 or self._ended:
                    state = "ended" if self._ended else f"said nothing of it in {timeout} s"
                    raise AssertionError(f"{self.name} {state}: {text!r}\n{self.output()}")
                self._changed.wait(left)
        return found[count - 1]

    def wait_exit(self, timeout: float = 20.0) -> int:
        """Return the exit status."""
        return self.process.wait(timeout)

    def send(self, signal_number: int) -> None:
        """Send a signal."""
        self.process.send_signal(signal_number)

    def terminate(self, timeout: float = 20.0) -> int:
        """Ask it to stop (SIGTERM) and return the exit status."""
        self.process.terminate()
        return self.wait_exit(timeout)

    def kill(self) -> None:
        """Kill it with SIGKILL, and return when it is gone."""
        self.process.kill()
        self.process.wait(10)

    def output(self) -> str:
        """Return the last lines that it wrote."""
        return "".join(self.lines[-60:])

    def _collect(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


def end_process(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Ask a process to stop (SIGTERM), kill it when it does not, and return when it is gone."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(seconds)


class Spawner:
    """Starts processes on one namespace; `spawn("sequencer")`, `spawn("all")` or a script."""

    def __init__(self, settings: Settings, directory: Path) -> None:
        self._settings = settings
        self._directory = directory
        self._spawned: list[Spawned] = []

    def __call__(
        self, what: str | Path, *arguments: str, ready: str | None = "ready", **env: str
    ) -> Spawned:
        """Start `surfacelog run WHAT` or the Python script WHAT, and wait for its `ready` line.

        `env` adds variables, e.g. `SURFACELOG_FAILPOINT="after-commit"`; `ready=None` does not
        wait.
        """
        module = ["-m", "surfacelog.processors.cli.main", "run", str(what)]
        command = [str(what)] if str(what).endswith(".py") else module
        if what in PROCESSES:
            command.append("--lifeline")
        process = subprocess.Popen(
            [sys.executable, *command, *arguments],
            env=os.environ | environment_of(self._settings) | env,
            cwd=self._directory,
            stdin=subprocess.PIPE,  # the lifeline: it ends with this process, however that ends
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        spawned = Spawned(process, str(what))
        self._spawned.append(spawned)
        if ready is not None:
            spawned.wait_line(ready)
        return spawned

    def kill_all(self) -> None:
        """Kill what still runs."""
        for spawned in self._spawned:
            spawned.kill()


def environment_of(settings: Settings) -> dict[str, str]:
    """Return the variables that make `Settings()` equal to `settings` in another process."""
    plain = settings.model_dump(mode="json", exclude_none=True)
    plain["summarizer_api_key"] = settings.summarizer_api_key.get_secret_value()
    texts = {name: json.dumps(v) if isinstance(v, list) else str(v) for name, v in plain.items()}
    return {f"SURFACELOG_{name.upper()}": text for name, text in texts.items()}


def endpoints_of(settings: Settings) -> dict[str, str]:
    """Return the variables that point another process at the same services."""
    endpoints = ("SURFACELOG_KAFKA", "SURFACELOG_REGISTRY", "SURFACELOG_REDIS")
    return {name: value for name, value in environment_of(settings).items() if name in endpoints}
