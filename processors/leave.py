"""Ending a process whose work is done, whatever its threads are inside of.

The loop and the interpreter wait for every thread of the loop's executor. One that asks a broker
which is away stays inside its call for up to half a minute, and nobody needs its answer any more:
a supervisor would kill the process first.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Coroutine


def run_and_leave(work: Coroutine[Any, Any, int]) -> NoReturn:
    """Run the work of a process and exit with the status that it returns; raises what it raises.

    The work has to have closed what needs closing: nothing registered for the exit runs.
    """
    with asyncio.Runner() as runner:
        status = runner.run(work)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
