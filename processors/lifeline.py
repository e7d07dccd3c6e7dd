"""Ending with the process that started this one, however that one ends.

The parent holds the other end of our standard input and never writes: the input ends when the
parent does, even by `kill -9`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Final

DRAIN_SECONDS: Final = 15.0


def follow_parent() -> None:
    """Stop this process, as SIGTERM does, when standard input ends; kill it if that takes long."""
    threading.Thread(target=_follow, name="lifeline", daemon=True).start()


def _follow() -> None:
    # Not sys.stdin: a thread that holds its buffer's lock breaks the interpreter's shutdown.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    # To the main thread: a signal that this thread takes would not wake it from a system call.
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(DRAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)
