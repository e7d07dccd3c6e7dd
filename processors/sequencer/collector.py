"""Python's cyclic garbage collector, set for a process that makes many objects and no cycles."""

from __future__ import annotations

import gc
from typing import Final

_YOUNG: Final = 50_000
"""Objects more, made and not yet freed, that start a collection: some transactions' worth."""

_OLDER: Final = (20, 100)


def calm_collector() -> None:
    """Let cycles be looked for rarely in this process, and never in what it holds already.

    Requests, batches and states are freed by their reference counts. With Python's default of
    700 objects, the collector walked over those of the transaction at hand, and over all states
    ever again, and freed nothing.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, *_OLDER)
