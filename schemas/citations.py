"""Citations of an append's own events: -1-i on the wire means its i-th event (DESIGN 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue


def resolve_citations(event: JsonObject, first_seq: int) -> JsonObject:
    """Return the event with its self-citations made absolute for an append at `first_seq`.

    The event itself is returned when it has none. A chunk run counts as all its events. Nothing
    is checked here: what is no list of integers stays as it is.
    """
    sources = event.get("sourceEventSeqs")
    if not isinstance(sources, list) or _are_absolute(sources):
        return event
    return {**event, "sourceEventSeqs": [_resolve(source, first_seq) for source in sources]}


def _are_absolute(sources: list[JsonValue]) -> bool:
    """An assistant message cites hundreds of chunks: look at them at the speed of C."""
    return {*map(type, sources)} <= {int} and min(sources, default=0) >= 0  # type: ignore[type-var, operator]  # integers


def _resolve(source: JsonValue, first_seq: int) -> JsonValue:
    if isinstance(source, int) and not isinstance(source, bool) and source < 0:
        return first_seq - 1 - source
    return source
