"""Whether a stored log may seed a session, and where the session's own events begin.

A resumed, forked or replayed session begins with the events of a log. They are held to the same
rules as live appends, and session/end-seed marks where they end: every compaction bracket that
is open before it is stale (SEMANTICS 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.projections.surface import SurfaceFold
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.event_rules import check_event, check_lossless

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue

END_SEED: Final = "session/end-seed"


def check_seed(events: Iterable[JsonValue], *, lossless: bool = True) -> SurfaceFold:
    """Return the surface of a log that may seed a session.

    `lossless` False leaves out the check of its numbers, which a store has made on the way in.
    Raises AdmissionError with the index of the first event that may not stand.
    """
    fold = SurfaceFold()
    for index, event in enumerate(events):
        try:
            if lossless:
                check_lossless(event)
            check_event(event)
            fold.apply(event)
        except AdmissionError as error:
            raise AdmissionError(error.refusal, error.message, index) from error
    return fold


def needs_end_seed(events: Sequence[JsonObject]) -> bool:
    """Return whether a seed gets an end-seed of its own: a log that ends in one does not grow
    each time that it is opened."""
    return not events or events[-1].get("type") != END_SEED


def end_seed(seq: int, time: int) -> JsonObject:
    """Return the event that marks the end of a seed; `time` in ms UTC."""
    return {"type": END_SEED, "seq": seq, "time": time, "data": {}}
