"""A process that is done does not wait for its threads."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import asyncio, threading
from surfacelog.processors.leave import run_and_leave

async def work() -> int:
    inside = threading.Event()
    never = threading.Event()
    asking = asyncio.ensure_future(asyncio.to_thread(lambda: (inside.set(), never.wait())))
    while not inside.is_set():
        await asyncio.sleep(0.01)
    asking.cancel()
    print("done")
    return 3

run_and_leave(work())
"""


def test_a_process_leaves_while_a_thread_is_inside_a_call() -> None:
    """Seen to hang with asyncio.run."""
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout) == (3, "done\n"), ended.stderr
