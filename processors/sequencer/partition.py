"""One partition that this sequencer owns, and what a transaction changes in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surfacelog.processors.sequencer.snapshots import Round

if TYPE_CHECKING:
    from surfacelog.processors.sequencer.sessions import Sessions
    from surfacelog.projections.session_state import SessionState


@dataclass(slots=True)
class Partition:
    """A partition number, as of the last committed transaction.

    `offsets` are where each request topic is read next, `end` the offset of the log up to which
    `sessions` hold every batch. `tail_appends` and `tail_bytes` measure the log since the
    last round began, `changed` are the sessions that it concerns.
    """

    number: int
    offsets: dict[str, int]
    sessions: Sessions
    end: int = 0
    tail_appends: int = 0
    tail_bytes: int = 0
    changed: set[str] = field(default_factory=set)
    round: Round | None = None

    def note_batch(self, session_id: str, size: int) -> None:
        """Count one batch of the log since the last round."""
        self.changed.add(session_id)
        self.tail_appends += 1
        self.tail_bytes += size

    def begin_round(self) -> Round:
        """Begin a round at the end of the log; an unfinished one is taken up by it."""
        pending = self.changed if self.round is None else self.changed.union(self.round.pending)
        self.round = Round(self.end, sorted(pending))
        self.changed = set()
        self.tail_appends = self.tail_bytes = 0
        return self.round


class Overlay:
    """What the open transaction changes in one partition (DESIGN 4).

    States are copied on first touch. `merge` makes the changes those of the partition, after
    the commit; an overlay that is dropped has changed nothing. Nothing else undoes state.
    """

    __slots__ = ("_first_offset", "_sizes", "_states", "offsets", "partition", "round_left")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.offsets = dict(partition.offsets)
        self.round_left: list[str] | None = None
        self._states: dict[str, SessionState] = {}
        self._sizes: list[tuple[str, int]] = []
        self._first_offset: int | None = None

    def state(self, session_id: str) -> SessionState | None:
        """Return a session's state in this transaction, not to be changed; None for no session."""
        state = self._states.get(session_id)
        return self.partition.sessions.get(session_id) if state is None else state

    def own_state(self, state: SessionState) -> SessionState:
        """Return the state's copy that belongs to this transaction."""
        owned = self._states.get(state.session_id)
        if owned is None:
            owned = self._states[state.session_id] = state.copy()
        return owned

    def note_batch(self, session_id: str, size: int) -> bool:
        """Count a batch of the log; True for the first one of this transaction."""
        self._sizes.append((session_id, size))
        return len(self._sizes) == 1

    def note_offset(self, offset: int) -> None:
        """Note where in the log the first batch was delivered."""
        self._first_offset = offset

    def merge(self) -> None:
        """Take the changes over, now that they are committed."""
        partition = self.partition
        partition.offsets = self.offsets
        for session_id, state in self._states.items():
            partition.sessions.put(session_id, state)
        for session_id, size in self._sizes:
            partition.note_batch(session_id, size)
        if self._sizes:
            partition.end = self._end()
        self._merge_round()

    def _end(self) -> int:
        if self._first_offset is None:
            raise AssertionError("a committed batch without a place in the log")
        # Our batches lie behind each other; if a dead transaction's lie between them, this is
        # too low, which only makes a replay longer.
        return self._first_offset + len(self._sizes)

    def _merge_round(self) -> None:
        if self.round_left is None or self.partition.round is None:
            return
        if self.round_left:
            self.partition.round.pending = self.round_left
        else:
            self.partition.round = None
