"""Loading a stored log: the version, old shapes, unknown types, crash closers, all rules.

In this order (SEMANTICS 3, "load"), so that a log of a newer writer is called unsupported, never
corrupt, and a log whose writer died in a turn comes back balanced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surfacelog.projections.closers import crash_closers
from surfacelog.projections.seed import check_seed
from surfacelog.schemas.errors import AdmissionError, CorruptLogError
from surfacelog.schemas.event_rules import check_message_event, require_known_types
from surfacelog.schemas.legacy import upgrade_events
from surfacelog.schemas.session_header import check_header, check_known_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class LoadedLog:
    """A log ready to go on: `events` in today's shapes, and the `closers` that follow them."""

    header: JsonObject
    events: list[JsonObject]
    closers: list[JsonObject]


def load_log(header: JsonObject, events: Sequence[JsonValue]) -> LoadedLog:
    """Return a stored log as it is loaded.

    Raises UnsupportedLogError for another version or a type that no reader may skip, and
    CorruptLogError for everything that breaks a rule.
    """
    check_known_version(header)
    # What is no object has no members: it is refused by the checks that look for them.
    objects = [_object(event) for event in events]
    try:
        upgraded = upgrade_events(objects, str(header.get("id")))
        for event in upgraded:
            check_message_event(event)
        require_known_types(upgraded)
        closers = crash_closers(upgraded)
        check_header(header)
        check_seed([*upgraded, *closers], lossless=False)
    except AdmissionError as error:
        raise CorruptLogError(f"the log breaks a rule: {error.message}") from error
    return LoadedLog(header, upgraded, closers)


def _object(event: JsonValue) -> JsonObject:
    if event is None:
        raise CorruptLogError("an event is null")
    return event if isinstance(event, dict) else {}
