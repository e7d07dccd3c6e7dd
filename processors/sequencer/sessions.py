"""The sessions of one partition: the hot ones decoded, the others kept as their snapshots."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from surfacelog.projections.session_state import SessionState

if TYPE_CHECKING:
    from collections.abc import Iterator


class Packed(NamedTuple):
    """An encoded state (`SessionState.to_bytes`) and where in the log it stands."""

    next_seq: int
    epoch: int
    state: bytes


class Sessions:
    """States by session id. `hot` bounds how many are kept decoded, the last used ones."""

    __slots__ = ("_hot", "_hot_limit", "_packed")

    def __init__(self, hot: int) -> None:
        self._hot_limit = hot
        self._hot: OrderedDict[str, SessionState] = OrderedDict()
        self._packed: dict[str, Packed] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._hot.keys() | self._packed.keys())

    def get(self, session_id: str) -> SessionState | None:
        """Return the state, which must not be changed, or None when there is no such session."""
        state = self._hot.get(session_id)
        if state is not None:
            self._hot.move_to_end(session_id)
            return state
        packed = self._packed.get(session_id)
        if packed is None:
            return None
        state = SessionState.from_bytes(packed.state)
        self._warm(session_id, state)
        return state

    def put(self, session_id: str, state: SessionState) -> None:
        """Take a state over in place of an older one."""
        self._packed.pop(session_id, None)
        self._warm(session_id, state)

    def put_packed(self, session_id: str, packed: Packed) -> None:
        """Take a state over as its snapshot."""
        self._hot.pop(session_id, None)
        self._packed[session_id] = packed

    def packed(self, session_id: str) -> Packed:
        """Return the snapshot of a session. KeyError when there is none."""
        packed = self._packed.get(session_id)
        return _pack(self._hot[session_id]) if packed is None else packed

    def _warm(self, session_id: str, state: SessionState) -> None:
        self._hot[session_id] = state
        self._hot.move_to_end(session_id)
        if len(self._hot) > self._hot_limit:
            idle_id, idle = self._hot.popitem(last=False)
            # A state that was only read still has the snapshot that it came from.
            if idle_id not in self._packed:
                self._packed[idle_id] = _pack(idle)


def _pack(state: SessionState) -> Packed:
    return Packed(state.next_seq, state.epoch, state.to_bytes())
