"""Keeps processes running: starts them, restarts what exits, stops all with itself."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIRST_DELAY: Final = 0.2
LONGEST_DELAY: Final = 10.0
STABLE_SECONDS: Final = 10.0
"""A process that ran for this long is restarted after the first delay again."""

STOP_SECONDS: Final = 20.0
OUTPUT_SECONDS: Final = 2.0
CHECK_SECONDS: Final = 1.0
LINE_BYTES: Final = 1024 * 1024

_log = structlog.get_logger()


async def supervise(commands: Mapping[str, Sequence[str]]) -> None:
    """Run all commands until SIGTERM or SIGINT, then stop them and return.

    A command's standard input stays open and empty for as long as this process lives: children
    that follow it (`lifeline.follow_parent`) end with this process even when it is killed. Their
    output goes to stderr, each line after the command's name.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await asyncio.gather(*(_keep(name, command, stop) for name, command in commands.items()))


async def _keep(name: str, command: Sequence[str], stop: asyncio.Event) -> None:
    """Run one command again and again, waiting longer after each quick exit."""
    delay = FIRST_DELAY
    while not stop.is_set():
        started = time.monotonic()
        status = await _run(name, command, stop)
        if stop.is_set():
            return
        if time.monotonic() - started > STABLE_SECONDS:
            delay = FIRST_DELAY
        _log.warning("restarting", process=name, status=status, seconds=delay)
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), delay)
        delay = min(delay * 2, LONGEST_DELAY)


async def _run(name: str, command: Sequence[str], stop: asyncio.Event) -> int:
    """Run a command until it exits or `stop` is set; return its exit status."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        limit=LINE_BYTES,
        start_new_session=True,  # Ctrl-C is for the supervisor alone, which stops its children
    )
    _log.info("started", process=name, pid=process.pid)
    output = asyncio.create_task(_copy_lines(name, process))
    stopper = asyncio.create_task(_stop_when(stop, name, process))
    status = await _exit_status(process)
    stopper.cancel()
    with suppress(TimeoutError):  # something that it started holds its output open
        await asyncio.wait_for(output, OUTPUT_SECONDS)
    return status


async def _exit_status(process: asyncio.subprocess.Process) -> int:
    """Wait until the process has ended; asyncio itself waits for the end of its output as well."""
    while process.returncode is None:
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), CHECK_SECONDS)
    return process.returncode


async def _stop_when(stop: asyncio.Event, name: str, process: asyncio.subprocess.Process) -> None:
    await stop.wait()
    process.terminate()
    await asyncio.sleep(STOP_SECONDS)  # cancelled when the process has ended
    _log.warning("killing", process=name, seconds=STOP_SECONDS)
    process.kill()


async def _copy_lines(name: str, process: asyncio.subprocess.Process) -> None:
    if process.stdout is None:
        raise AssertionError("started with a pipe as standard output")
    while True:
        try:
            line = await process.stdout.readline()
        except ValueError:
            line = b"(a line that is too long)\n"  # unread, it would block the process
        if not line:
            return
        with suppress(OSError):  # nobody reads ours any more: its output must still be taken
            sys.stderr.write(f"{name:>10} | {line.decode(errors='replace')}")
            sys.stderr.flush()
