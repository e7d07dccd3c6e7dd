"""The transcript: what a person saw, in the order in which it was said (SEMANTICS 10).

A replacement changes what the model sees and never what a person has already seen: the
transcript is the surface events that appended, whatever shadows them since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.schemas.surface_form import is_surface_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.schemas.json_value import JsonObject


def is_transcript_event(event: JsonObject) -> bool:
    """Return whether the event is a surface event that appended."""
    return is_surface_type(event.get("type")) and event.get("surfaceOp") == "append"


def transcript(events: Iterable[JsonObject]) -> list[JsonObject]:
    """Return the events of the transcript, in log order."""
    return [event for event in events if is_transcript_event(event)]
