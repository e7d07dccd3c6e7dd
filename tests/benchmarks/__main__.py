"""`make bench`: all benchmarks, one after the other, on services of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.processes import endpoints_of
from tests.running_services import running_services

BENCHMARKS: Final = (
    "codec_bench",
    "admission_bench",
    "sequencer_bench",
    "end_to_end_bench",
    "compactor_bench",
)


def main() -> int:
    """Run every benchmark in a process of its own; return 1 when one fails."""
    failed = 0
    with tempfile.TemporaryDirectory() as directory, running_services(Path(directory)) as settings:
        environment = os.environ | endpoints_of(settings)
        for name in BENCHMARKS:
            print(f"\n== {name}", flush=True)
            command = [sys.executable, "-m", f"tests.benchmarks.{name}"]
            failed |= subprocess.run(command, env=environment, check=False).returncode
    return int(failed != 0)


if __name__ == "__main__":
    sys.exit(main())
