"""The form of an event's surface members, before any surface is looked at (SEMANTICS 1, 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.event_types import SURFACE_TYPES
from surfacelog.schemas.json_text import text_or_json
from surfacelog.schemas.json_value import MAX_SAFE_INTEGER, is_count
from surfacelog.schemas.records import SeqRange

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

_REPLACE_MEMBERS: Final = {"op", "start", "end"}


def is_surface_type(event_type: JsonValue) -> bool:
    """Return whether events of this type are nodes of the surface."""
    return isinstance(event_type, str) and event_type in SURFACE_TYPES


def replaced_range(event: JsonObject) -> SeqRange | None:
    """Return the span that a surface event replaces, None when it appends or is log-only.

    Raises AdmissionError `surface.op`: a log-only event carries no surface member, a surface
    event carries "append" or exactly {op: "replace", start, end}.
    """
    if not is_surface_type(event.get("type")):
        if "surfaceOp" in event or "sourceEventSeqs" in event:
            kind = text_or_json(event.get("type"))[:80]
            raise AdmissionError(
                "surface.op",
                f"{kind!r} is log-only: it carries no surfaceOp or sourceEventSeqs",
            )
        return None
    op = event.get("surfaceOp")
    if op == "append":
        return None
    if (
        not isinstance(op, dict)
        or op.keys() != _REPLACE_MEMBERS
        or op["op"] != "replace"
        or not (is_count(op["start"]) and is_count(op["end"]))
    ):
        raise AdmissionError(
            "surface.op", 'surfaceOp is "append" or {op: "replace", start, end} with node seqs'
        )
    return SeqRange(int(op["start"]), int(op["end"]))  # type: ignore[arg-type]  # counts: checked


def cited_seqs(event: JsonObject) -> frozenset[int]:
    """Return the seqs that a surface event cites; none when it says nothing.

    Raises AdmissionError `surface.sources`: what is cited is a list of different non-negative
    integers, empty only on an assistant/message (where it says "an empty stream").
    """
    if "sourceEventSeqs" not in event:
        return frozenset()
    sources = event["sourceEventSeqs"]
    if not isinstance(sources, list) or not _are_seqs(sources):
        raise AdmissionError("surface.sources", "sourceEventSeqs is a list of seqs")
    if not sources and event.get("type") != "assistant/message":
        raise AdmissionError(
            "surface.sources", "empty sourceEventSeqs: leave it out (only an assistant may)"
        )
    cited = frozenset(map(int, sources))  # type: ignore[arg-type]  # counts: checked
    if len(cited) != len(sources):
        raise AdmissionError("surface.sources", "sourceEventSeqs names a seq twice")
    return cited


def _are_seqs(sources: list[JsonValue]) -> bool:
    if {*map(type, sources)} == {int}:
        # An assistant message cites hundreds of chunks: plain integers are compared all at once.
        return min(sources) >= 0 and max(sources) <= MAX_SAFE_INTEGER  # type: ignore[type-var, operator]  # integers
    return all(map(is_count, sources))
