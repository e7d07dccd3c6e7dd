"""How fast four compactors bring a fleet below its threshold while a model sometimes fails.

    python -m tests.benchmarks.compactor_bench [SESSIONS] [SEED]

The model is a local server that thinks for 0.05 to 0.5 s; one call in twenty is told to come back
later, and one summary in twenty is no good, so that its session is asked for again.
"""

from __future__ import annotations

import asyncio
import secrets
import statistics
import sys
import tempfile
from pathlib import Path

from surfacelog.producers.bootstrap import create_namespace
from surfacelog.schemas.settings import Settings
from tests.compaction_fleet import WORKERS, Figures, compact_fleet
from tests.processes import Spawner


def main() -> None:
    """Make a namespace, compact a fleet in it, print the figures."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else secrets.randbelow(2**32)
    settings = Settings(namespace=f"bench-{secrets.token_hex(4)}", partitions=8)
    create_namespace(settings)
    with tempfile.TemporaryDirectory() as directory:
        spawn = Spawner(settings, Path(directory))
        try:
            figures = asyncio.run(compact_fleet(settings, spawn, count, seed))
        finally:
            spawn.kill_all()
    _print(figures, count, seed)


def _print(figures: Figures, count: int, seed: int) -> None:
    waits = sorted(figures.waits)
    print(f"{count} sessions under pressure at once, {WORKERS} compactors, seed {seed}")
    print(f"wall time {figures.seconds:.1f} s, {count / figures.seconds:.1f} sessions/s")
    print(f"{figures.calls} calls of the model for {figures.compactions} compactions")
    print(f"failed attempts {dict(figures.failures)}, refused appends {dict(figures.refusals)}")
    print(f"a session waited p50 {statistics.median(waits):.1f} s, at most {waits[-1]:.1f} s")


if __name__ == "__main__":
    main()
