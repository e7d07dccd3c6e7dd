"""What the invariants of a log share: their error, and careful looks at event data."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.json_equal import same_json
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from surfacelog.schemas.json_value import JsonObject, JsonValue

    class Trace(Protocol):
        """An invariant's fold: it judges an event, then takes it in."""

        def take(self, event: JsonObject) -> None:
            """Raise InvariantError for an event that breaks the invariant."""
            ...


class InvariantError(SurfacelogError):
    """A log breaks a relation between its events; `seq` is the offender's, as it names it."""

    code: ClassVar[str] = "invariant"

    def __init__(self, message: str, seq: JsonValue = None) -> None:
        super().__init__(message, seq=seq)
        self.seq = seq


def check_trace(trace: Trace, events: Iterable[JsonValue]) -> None:
    """Feed a log to a trace; InvariantError at the first event that breaks it.

    A null event has no seq: the error names the one before it. What is no object otherwise has
    no type and no relation to anything.
    """
    last: JsonValue = None
    for event in events:
        if event is None:
            raise InvariantError("an event is null", last)
        last = member(event, "seq")
        try:
            if isinstance(event, dict):
                trace.take(event)
        except InvariantError as error:
            raise InvariantError(error.message, last) from error


def data_of(event: JsonObject) -> JsonObject:
    """Return an event's data; an empty object for data that has no members.

    Raises InvariantError for missing or null data, of which nothing can be said.
    """
    data = event.get("data")
    if data is None:
        raise InvariantError(f"{event.get('type')} has no data")
    return data if isinstance(data, dict) else {}


def names(data: JsonObject, member: str, value: JsonValue) -> bool:
    """Return whether the data has that member with that value; a missing one is never equal."""
    return member in data and same_json(data[member], value)
