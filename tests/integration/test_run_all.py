from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.processes import Spawner


@pytest.mark.services
def test_all_processes_run_come_back_and_stop(spawn: Spawner) -> None:
    processes = spawn("all", ready=None)
    processes.wait_line('"event": "ready"', count=3)
    started = processes.wait_line('"process": "sequencer", "pid"')
    os.kill(int(started.split('"pid": ')[1].split(",")[0]), signal.SIGKILL)
    processes.wait_line('"event": "ready"', count=4)
    assert processes.terminate() == 0
    assert processes.output().count('"event": "stopped"') >= 2
