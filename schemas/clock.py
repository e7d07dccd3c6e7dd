"""The clock of events: integer milliseconds since the epoch, UTC (DESIGN 3)."""

from __future__ import annotations

import time


def now_ms() -> int:
    """Return the time now, in ms."""
    return time.time_ns() // 1_000_000
