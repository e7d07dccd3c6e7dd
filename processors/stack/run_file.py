"""Which process a service of the stack is, in a way that survives reuse of process ids.

A service inherits a lock on its run file and holds it for as long as it lives, so a run file
that is not locked names nobody, whatever process has that id today.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

CHECK_SECONDS: Final = 0.05
KILLED_SECONDS: Final = 5.0


class RunFile:
    """The run file of one service."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pid(self) -> int | None:
        """Return the process id; None when the process has ended or never was."""
        try:
            descriptor = os.open(self.path, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.pread(descriptor, 20, 0) or 0) or None
        else:
            return None
        finally:
            os.close(descriptor)

    @contextmanager
    def claimed(self) -> Iterator[int]:
        """Yield a locked descriptor for a child to inherit; the lock stays with the child."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # at most a passing `pid()` holds it
            os.ftruncate(descriptor, 0)
            yield descriptor
        finally:
            os.close(descriptor)

    def send(self, signal_number: int) -> None:
        """Send a signal to the process and its children, if it runs."""
        pid = self.pid()
        if pid is not None:
            try:
                os.killpg(pid, signal_number)
            except ProcessLookupError:
                return  # it ended just now


def stop_all(run_files: Sequence[RunFile], timeout: float) -> list[RunFile]:
    """Ask all to stop, and kill those that have not after `timeout` seconds; return these."""
    for run_file in run_files:
        run_file.send(signal.SIGTERM)
    stubborn = _wait_ended(run_files, timeout)
    for run_file in stubborn:
        run_file.send(signal.SIGKILL)
    _wait_ended(stubborn, KILLED_SECONDS)
    return stubborn


def _wait_ended(run_files: Sequence[RunFile], timeout: float) -> list[RunFile]:
    """Return those that still run after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    running = [run_file for run_file in run_files if run_file.pid() is not None]
    while running and time.monotonic() < deadline:
        time.sleep(CHECK_SECONDS)  # not our children: nothing tells us of their end
        running = [run_file for run_file in running if run_file.pid() is not None]
    return running
