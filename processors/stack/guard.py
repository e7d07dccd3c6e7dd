"""Starting processes that outlive this one only when it says so.

Services must survive `stack up`, but not a `stack up` that was interrupted or killed half way.
A watchdog process holds the other end of a pipe: when this process ends without a release, by
whatever signal, the watchdog stops everything that was started.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import IO, TYPE_CHECKING, Final, Self

from surfacelog.processors.stack import watchdog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from surfacelog.processors.stack.run_file import RunFile

GATE: Final = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh")
"""Waits for a line before it becomes the command, and ends when the line cannot come any more:
the watchdog knows of a process before it does anything."""


class Guard:
    """A context in which processes are started; those not released end with the context."""

    def __enter__(self) -> Self:
        self._watchdog = subprocess.Popen(
            [sys.executable, "-m", watchdog.__name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal must not reach it
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _input_of(self._watchdog).close()
        self._watchdog.wait()

    def start(
        self,
        command: Sequence[str],
        run_file: RunFile,
        output: IO[bytes],
        environment: Mapping[str, str],
    ) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own and note it in its run file."""
        with run_file.claimed() as descriptor:
            process = subprocess.Popen(
                [*GATE, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | environment,
                pass_fds=[descriptor],
                start_new_session=True,
            )
            os.pwrite(descriptor, b"%d\n" % process.pid, 0)
            self._tell(str(run_file.path))
        gate = _input_of(process)
        gate.write(b"go\n")
        gate.close()
        return process

    def release(self) -> None:
        """Let everything that was started live on when the context ends."""
        self._tell(watchdog.RELEASE)

    def _tell(self, line: str) -> None:
        pipe = _input_of(self._watchdog)
        pipe.write(f"{line}\n".encode())
        pipe.flush()


def _input_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdin is None:
        raise AssertionError("started with a pipe as standard input")
    return process.stdin
