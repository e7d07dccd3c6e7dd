"""`make test`: every test, on one stack of its own. Arguments go to pytest.

Most tests wait for Kafka's timeouts, not for a core, so more of them run at once than there are
cores; they share the services and have a namespace each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.processes import endpoints_of
from tests.running_services import running_services

AT_ONCE: Final = 4
LONGEST_SECONDS: Final = 2400.0
"""No run takes so long: what is reached then is a process that does not end."""


def main() -> int:
    """Start the services, run pytest on them, stop them; return pytest's exit status."""
    command = [sys.executable, "-m", "pytest", "-n", str(AT_ONCE), "--dist", "worksteal"]
    command += sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory, running_services(Path(directory)) as settings:
        environment = os.environ | endpoints_of(settings) | {"SURFACELOG_TEST_STACK": "1"}
        try:
            run = subprocess.run(command, env=environment, timeout=LONGEST_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            print(f"the tests did not end within {LONGEST_SECONDS:g} s", file=sys.stderr)
            return 1
        return run.returncode


if __name__ == "__main__":
    sys.exit(main())
