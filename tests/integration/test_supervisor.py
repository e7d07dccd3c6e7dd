from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from typing import TYPE_CHECKING

import pytest
from tests.processes import Spawned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHILD = """
    import signal, sys, time
    from pathlib import Path
    from surfacelog.processors.lifeline import follow_parent

    def drain(*_: object) -> None:
        Path(sys.argv[1]).write_text("drained")
        sys.exit(0)

    signal.signal(signal.SIGTERM, drain)
    follow_parent()
    print("ready", flush=True)
    time.sleep(600)
"""
SUPERVISOR = """
    import asyncio, sys
    from surfacelog.processors.cli.logs import configure_logs
    from surfacelog.processors.supervisor import supervise

    configure_logs()
    child, directory = sys.argv[1:]
    names = ("first", "second")
    commands = {name: [sys.executable, child, f"{directory}/{name}"] for name in names}
    asyncio.run(supervise(commands))
"""


TALKATIVE = """
    print("x" * 3 * 1024 * 1024, flush=True)
    print("said it", flush=True)
"""
SURVIVED = """
    import subprocess
    subprocess.Popen(["sleep", "20"])
    print("left a child behind", flush=True)
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Spawned]:
    """A supervisor whose two children are ready; each writes a file when it drains."""
    spawned = supervise(CHILD, tmp_path)
    spawned.wait_line("| ready", count=2)
    yield spawned
    spawned.kill()


def supervise(program: str, tmp_path: Path) -> Spawned:
    """Start a supervisor of two children that run a program."""
    child, script = tmp_path / "child.py", tmp_path / "supervisor.py"
    child.write_text(textwrap.dedent(program))
    script.write_text(textwrap.dedent(SUPERVISOR))
    process = subprocess.Popen(
        [sys.executable, str(script), str(child), str(tmp_path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Spawned(process, "supervisor")


def pid_of(supervisor: Spawned, name: str, *, count: int = 1) -> int:
    """Return the process id that the supervisor logged at the `count`-th start of a child."""
    line = supervisor.wait_line(f'"process": "{name}", "pid"', count=count)
    return int(line.split('"pid": ')[1].split(",")[0])


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} did not drain"
        time.sleep(0.02)


def test_a_killed_child_is_started_again_and_its_sibling_left_alone(supervisor: Spawned) -> None:
    second = pid_of(supervisor, "second")
    os.kill(pid_of(supervisor, "first"), signal.SIGKILL)
    supervisor.wait_line("first | ready", count=2)
    assert pid_of(supervisor, "first", count=2) > 0
    os.kill(second, 0)


def test_sigterm_drains_the_children_and_exits_0(supervisor: Spawned, tmp_path: Path) -> None:
    assert supervisor.terminate() == 0
    assert (tmp_path / "first").read_text() == (tmp_path / "second").read_text() == "drained"


def test_children_of_a_killed_supervisor_drain_too(supervisor: Spawned, tmp_path: Path) -> None:
    supervisor.kill()
    wait_for(tmp_path / "first")
    wait_for(tmp_path / "second")


def test_a_line_of_any_length_blocks_nobody(tmp_path: Path) -> None:
    talking = supervise(TALKATIVE, tmp_path)
    talking.wait_line("first | said it")
    talking.wait_line("second | said it")
    assert talking.terminate() == 0


def test_a_child_is_restarted_though_something_holds_its_output_open(tmp_path: Path) -> None:
    leaving = supervise(SURVIVED, tmp_path)
    leaving.wait_line("first | left a child behind", count=2, timeout=10)
    assert leaving.terminate() == 0
