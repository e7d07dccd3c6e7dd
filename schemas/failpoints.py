"""Named points of the code at which a chaos test kills the process, as `kill -9` would.

`SURFACELOG_FAILPOINT=name` kills at the first pass of the point called `name`, and
`SURFACELOG_FAILPOINT=name:3` at the fourth. Without the variable a point does nothing. With
`SURFACELOG_FAILPOINT_SIGNAL=STOP` the process is only stopped there, until it gets SIGCONT.
"""

from __future__ import annotations

import os
import signal
from itertools import count

_NAME, _, _SKIP = os.environ.get("SURFACELOG_FAILPOINT", "").partition(":")
_PASSES_TO_SKIP = int(_SKIP or 0)
_SIGNAL = signal.Signals[f"SIG{os.environ.get('SURFACELOG_FAILPOINT_SIGNAL', 'KILL')}"]
_passes = count()


def failpoint(name: str) -> None:
    """Kill or stop this process, if the environment names this point and its passes are over."""
    if name == _NAME and next(_passes) >= _PASSES_TO_SKIP:
        os.kill(os.getpid(), _SIGNAL)
