from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PASSES_THREE_TIMES = """
from surfacelog.schemas.failpoints import failpoint
for number in range(3):
    failpoint("other")
    failpoint("here")
    print(number, flush=True)
"""


@pytest.mark.parametrize(
    ("setting", "printed", "status"),
    [
        ("", "0 1 2", 0),
        ("elsewhere", "0 1 2", 0),
        ("here", "", -signal.SIGKILL),
        ("here:2", "0 1", -signal.SIGKILL),
    ],
)
def test_a_failpoint_kills_only_where_and_when_it_is_told(
    setting: str, printed: str, status: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PASSES_THREE_TIMES],
        env=os.environ | {"SURFACELOG_FAILPOINT": setting},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.stdout.split(), done.returncode) == (printed.split(), status)
