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


def main() -> int:
    """Start the services, run pytest on them, stop them; return pytest's exit status."""
    command = [sys.executable, "-m", "pytest", "-n", str(AT_ONCE), "--dist", "worksteal"]
    with tempfile.TemporaryDirectory() as directory, running_services(Path(directory)) as settings:
        environment = os.environ | endpoints_of(settings) | {"SURFACELOG_TEST_STACK": "1"}
        return subprocess.run(command + sys.argv[1:], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
