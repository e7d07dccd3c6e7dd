"""What became of an event, and what it was made from (SEMANTICS 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from surfacelog.projections.surface import fold_surface
from surfacelog.schemas.errors import NotFoundError
from surfacelog.schemas.json_value import list_member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue

Standing = Literal["current", "shadowed", "log-only"]


@dataclass(frozen=True, slots=True)
class EventTrace:
    """`replacement_chain` leads from what shadowed the event to the node that stands there now;
    `replaced` are the nodes that the event itself shadowed; `sources` what it cites; `derived`
    what cites it."""

    seq: int
    standing: Standing
    replacement_chain: tuple[int, ...]
    replaced: tuple[int, ...]
    sources: tuple[JsonValue, ...]
    derived: tuple[int, ...]

    @property
    def replaced_by(self) -> int | None:
        """The event that shadowed this one, if any did."""
        return self.replacement_chain[0] if self.replacement_chain else None


class LogTrace:
    """One fold of a log, asked about any of its events.

    Raises AdmissionError as `fold_surface` does.
    """

    def __init__(self, events: Sequence[JsonObject]) -> None:
        fold = fold_surface(events)
        self._events = events
        self._current = frozenset(fold.nodes)
        self._replaced = {one.seq: one.shadowed for one in fold.replacements}
        self._replaced_by = {seq: one.seq for one in fold.replacements for seq in one.shadowed}

    def standing(self, seq: int) -> Standing:
        """Return whether the event is on the surface, shadowed, or was never on it."""
        if seq in self._current:
            return "current"
        return "shadowed" if seq in self._replaced_by else "log-only"

    def event(self, seq: int) -> EventTrace:
        """Return the trace of one event; NotFoundError when the log has no such seq."""
        if not 0 <= seq < len(self._events):
            last = len(self._events) - 1
            raise NotFoundError(f"no event {seq}: the log ends at seq {last}", seq=seq)
        later = range(seq + 1, len(self._events))
        return EventTrace(
            seq=seq,
            standing=self.standing(seq),
            replacement_chain=tuple(self._chain(seq)),
            replaced=self._replaced.get(seq, ()),
            sources=tuple(list_member(self._events[seq], "sourceEventSeqs")),
            derived=tuple(
                n for n in later if seq in list_member(self._events[n], "sourceEventSeqs")
            ),
        )

    def _chain(self, seq: int) -> list[int]:
        chain: list[int] = []
        next_seq = self._replaced_by.get(seq)
        while next_seq is not None:
            chain.append(next_seq)
            next_seq = self._replaced_by.get(next_seq)
        return chain
