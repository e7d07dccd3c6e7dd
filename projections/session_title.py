"""The title of a session: the last session/title event says it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue

_SOURCE_MEMBERS: Final = {
    "fallback": ("kind",),
    "user": ("kind",),
    "provider": ("kind", "provider", "model"),
}


@dataclass(frozen=True, slots=True)
class SessionTitle:
    """`messages` are the seqs that the title was made from; `source` says by whom; `seq` and
    `time` are the event's."""

    title: JsonValue
    messages: list[JsonValue]
    source: JsonObject
    seq: JsonValue
    time: JsonValue


def session_title(events: Sequence[JsonValue]) -> SessionTitle | None:
    """Return the title at the end of a log; None when it has none.

    Raises CorruptLogError when the last title is malformed.
    """
    for event in reversed(events):
        if event is None:
            raise CorruptLogError("an event is null")
        if isinstance(event, dict) and event.get("type") == "session/title":
            return _title_of(event)
    return None


def _title_of(event: JsonObject) -> SessionTitle:
    data = event.get("data")
    messages, source = member(data, "messageSeqs"), member(data, "source")
    kind = member(source, "kind")
    known = _SOURCE_MEMBERS.get(kind) if isinstance(kind, str) else None
    if not isinstance(messages, list) or not isinstance(source, dict) or known is None:
        raise CorruptLogError(f"the title at seq {event.get('seq')} is malformed")
    return SessionTitle(
        title=member(data, "title"),
        messages=list(messages),
        source={name: source[name] for name in known if name in source},
        seq=event.get("seq"),
        time=event.get("time"),
    )
