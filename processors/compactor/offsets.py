"""Which offsets of `compactions` may be committed: those before which everything is done."""

from __future__ import annotations

import threading


class OffsetTracker:
    """Requests finish in any order; a partition's position moves only over finished ones.

    Safe for several threads: partitions are taken away in the thread that polls.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, dict[int, bool]] = {}
        self._position: dict[int, int] = {}

    def begin(self, partition: int, offset: int) -> None:
        """Note a delivered request; offsets of one partition arrive in order."""
        with self._lock:
            self._open.setdefault(partition, {})[offset] = False

    def done(self, partition: int, offset: int) -> None:
        """Note that a request has its outcome; ignored for a partition that was given up."""
        with self._lock:
            offsets = self._open.get(partition, {})
            if offset not in offsets:
                return
            offsets[offset] = True
            for first in tuple(offsets):
                if not offsets[first]:
                    break
                del offsets[first]
                self._position[partition] = first + 1

    def take_committable(self) -> dict[int, int]:
        """Return the positions that moved since the last call, by partition."""
        with self._lock:
            moved, self._position = self._position, {}
            return moved

    def forget(self, partition: int) -> None:
        """Drop a partition that now belongs to another worker."""
        with self._lock:
            self._open.pop(partition, None)
            self._position.pop(partition, None)
