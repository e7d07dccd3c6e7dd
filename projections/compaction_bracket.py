"""The compaction bracket of a session: the log's own lock around a compaction.

compaction/start opens it, compaction/end closes it, session/end-seed makes it stale (SEMANTICS 3).
While it is open, only its own checkpoint may replace anything, and only exactly what its
compaction/summary says was summarized (DESIGN 4, 7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.json_value import (
    list_member,
    member,
    object_member,
    text_member,
    whole_member,
)
from surfacelog.schemas.surface_form import replaced_range

if TYPE_CHECKING:
    from collections.abc import Callable

    from surfacelog.projections.surface_nodes import SurfaceNodes
    from surfacelog.projections.writers import Writers
    from surfacelog.schemas.json_value import JsonObject, JsonValue


class Bracket(NamedTuple):
    """An open compaction. `shadowed` are the seqs that its summary covers, None before it."""

    compaction_id: str
    source_command_id: str | None
    turn: int | None
    writer_id: str
    shadowed: tuple[int, ...] | None = None
    replaced: bool = False

    def to_json(self) -> JsonValue:
        """Return a compact form for snapshots."""
        shadowed: JsonValue = None if self.shadowed is None else list(self.shadowed)
        return [*self[:4], shadowed, self.replaced]

    @classmethod
    def from_json(cls, value: Any) -> Bracket:
        """Return what `to_json` was given."""
        compaction_id, command_id, turn, writer_id, shadowed, replaced = value
        seqs = None if shadowed is None else tuple(shadowed)
        return cls(compaction_id, command_id, turn, writer_id, seqs, replaced)


def is_replacement(event: JsonObject) -> bool:
    """Return whether the event takes the place of a span of the surface."""
    return replaced_range(event) is not None


def checkpoint_source(event: JsonObject) -> JsonObject | None:
    """Return the source of a checkpoint replacement, None for any other event."""
    if event["type"] != "user/message" or not is_replacement(event):
        return None
    source = object_member(event["data"], "source")
    return source if source.get("plugin") == "compact" else None


def check_bracket(
    bracket: Bracket | None, event: JsonObject, surface: SurfaceNodes, writers: Writers
) -> None:
    """Raise AdmissionError `compaction.*` for what the open bracket, or its absence, forbids."""
    rule = _RULES.get(str(event["type"]))
    if rule is not None:
        rule(bracket, event, writers)
        return
    source = checkpoint_source(event)
    if source is not None:
        _check_checkpoint(_matching(bracket, source, writers, "checkpoint"), event, surface)
    elif bracket is not None and is_replacement(event):
        raise _busy(bracket, "a replacement")


def advance_bracket(bracket: Bracket | None, event: JsonObject, writer_id: str) -> Bracket | None:
    """Return the bracket after one event of the log, admitted live or imported."""
    kind, data = event["type"], event["data"]
    if kind == "compaction/start":
        return Bracket(
            str(member(data, "compactionId")),
            text_member(data, "sourceCommandId"),
            whole_member(data, "turn"),
            writer_id,
        )
    if bracket is None or kind in ("compaction/end", "session/end-seed"):
        return None
    if kind == "compaction/summary":
        return bracket._replace(shadowed=_shadowed_seqs(data))
    if checkpoint_source(event) is not None:
        return bracket._replace(replaced=True)
    return bracket


def _check_start(bracket: Bracket | None, event: JsonObject, writers: Writers) -> None:
    if bracket is not None:
        raise _busy(bracket, "a compaction/start")
    compaction_id = _compaction_id(event["data"])
    if writers.opened_bracket(compaction_id):
        raise AdmissionError(
            "compaction.closed",
            f"compaction {compaction_id} was opened before and is over: take a new id",
        )


def _check_summary(bracket: Bracket | None, event: JsonObject, writers: Writers) -> None:
    own = _matching(bracket, event["data"], writers, "compaction/summary")
    if own.shadowed is not None:
        raise AdmissionError(
            "compaction.invalid", f"compaction {own.compaction_id} has its summary already"
        )
    seqs = list_member(event["data"], "shadowedSeqs")
    span = object_member(event["data"], "shadowedRange")
    if not seqs or [span.get("start"), span.get("end")] != [seqs[0], seqs[-1]]:
        raise AdmissionError(
            "compaction.invalid",
            "shadowedSeqs must not be empty, and shadowedRange names its first and last",
        )
    count = whole_member(event["data"], "shadowedTokenCount")
    if count is None or count < 0:
        raise AdmissionError("compaction.invalid", "shadowedTokenCount must be an integer >= 0")


def _check_checkpoint(own: Bracket, event: JsonObject, surface: SurfaceNodes) -> None:
    if own.shadowed is None or own.replaced:
        what = "has no summary yet" if own.shadowed is None else "has replaced its span already"
        raise AdmissionError(
            "compaction.invalid",
            f"compaction {own.compaction_id} {what}: append one summary, then one checkpoint",
        )
    if _replaced_seqs(event, surface) != own.shadowed:
        raise AdmissionError(
            "compaction.changed",
            f"the span of compaction {own.compaction_id} is not what was summarized: end it with"
            " an error and compact the surface as it is now",
        )


def _replaced_seqs(event: JsonObject, surface: SurfaceNodes) -> tuple[int, ...] | None:
    span = replaced_range(event)
    try:
        return None if span is None else tuple(node.seq for node in surface.shadowed(span))
    except AdmissionError:
        # An end of the span is shadowed by now: the surface has changed since the summary.
        return None


def _check_end(bracket: Bracket | None, event: JsonObject, writers: Writers) -> None:
    own = _matching(bracket, event["data"], writers, "compaction/end")
    if whole_member(event["data"], "turn") != own.turn:
        raise AdmissionError(
            "compaction.invalid",
            f"compaction/end names another turn than its start, {own.turn}: repeat that one",
        )
    if own.shadowed is None and member(event["data"], "error") is None:
        raise AdmissionError(
            "compaction.invalid",
            "compaction/end without a summary: say in `error` why the compaction failed",
        )


def _matching(bracket: Bracket | None, named: JsonValue, writers: Writers, what: str) -> Bracket:
    compaction_id = _compaction_id(named)
    if bracket is not None and bracket.compaction_id == compaction_id:
        if text_member(named, "sourceCommandId") != bracket.source_command_id:
            raise AdmissionError(
                "compaction.invalid",
                f"{what} names another sourceCommandId than compaction/start did: repeat that one",
            )
        return bracket
    if writers.opened_bracket(compaction_id):
        raise AdmissionError(
            "compaction.closed",
            f"{what} of compaction {compaction_id}, which was ended or made stale meanwhile:"
            " nothing of it may be appended; begin a new one if it is still needed",
        )
    if bracket is not None and what == "checkpoint":
        raise _busy(bracket, "a replacement")
    raise AdmissionError(
        "compaction.invalid",
        f"{what} of compaction {compaction_id}, which was never started: append its"
        " compaction/start first",
    )


def _compaction_id(named: JsonValue) -> str:
    compaction_id = text_member(named, "compactionId")
    if not compaction_id:
        raise AdmissionError("compaction.invalid", "compactionId must be a non-empty string")
    return compaction_id


def _shadowed_seqs(data: JsonValue) -> tuple[int, ...]:
    seqs = list_member(data, "shadowedSeqs")
    return tuple(seq for seq in seqs if isinstance(seq, int))


def _busy(bracket: Bracket, what: str) -> AdmissionError:
    return AdmissionError(
        "compaction.busy",
        f"{what} while compaction {bracket.compaction_id} of {bracket.writer_id} is open: wait"
        " until it has ended",
    )


_RULES: Final[dict[str, Callable[[Bracket | None, JsonObject, Writers], None]]] = {
    "compaction/start": _check_start,
    "compaction/summary": _check_summary,
    "compaction/end": _check_end,
}
