"""Which offsets of `compactions` may be committed: those before which everything is done."""

from __future__ import annotations


class OffsetTracker:
    """Requests finish in any order; a partition's position moves only over finished ones.

    Not safe for use by several threads.
    """

    def __init__(self) -> None:
        self._open: dict[int, dict[int, bool]] = {}
        self._position: dict[int, int] = {}

    def begin(self, partition: int, offset: int) -> None:
        """Note a delivered request; offsets of one partition arrive in order."""
        self._open.setdefault(partition, {})[offset] = False

    def done(self, partition: int, offset: int) -> None:
        """Note that a request's work is over; ignored for a partition that was given up."""
        offsets = self._open.get(partition, {})
        if offset not in offsets:
            return
        offsets[offset] = True
        while offsets and next(iter(offsets.values())):
            first = next(iter(offsets))
            del offsets[first]
            self._position[partition] = first + 1

    def take_committable(self) -> dict[int, int]:
        """Return the positions that moved since the last call, by partition."""
        moved, self._position = self._position, {}
        return moved

    def forget(self, partition: int) -> None:
        """Drop a partition that now belongs to another worker."""
        self._open.pop(partition, None)
        self._position.pop(partition, None)
