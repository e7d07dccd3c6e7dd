"""The process that stops half-started services when the process that starts them dies.

It reads run files of started services from its standard input, one path a line. When the input
ends it stops them all, unless the last line was `release`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from surfacelog.processors.stack.run_file import RunFile, stop_all

RELEASE: Final = "release"
STOP_SECONDS: Final = 10.0


def main() -> None:
    """Watch over the services named on standard input until it ends."""
    watched: list[RunFile] = []
    for line in sys.stdin:
        word = line.rstrip("\n")
        if word == RELEASE:
            watched.clear()
        else:
            watched.append(RunFile(Path(word)))
    stop_all(watched, STOP_SECONDS)


if __name__ == "__main__":
    main()
