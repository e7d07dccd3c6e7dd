"""The compaction brackets of a session: the log's own lock around a compaction.

compaction/start opens one, compaction/end closes it, session/end-seed makes it stale (SEMANTICS 3).
While it is open, only its own checkpoint may replace anything, and only exactly what its
compaction/summary says was summarized (DESIGN 4, 7).
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from surfacelog.projections.snapshot_columns import DIGEST_BYTES, pack_digests, unpack_digests
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.json_equal import same_json
from surfacelog.schemas.json_text import text_or_json
from surfacelog.schemas.json_value import (
    is_count,
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
    from surfacelog.schemas.json_value import JsonObject, JsonValue

REMEMBERED_BRACKETS: Final = 64
"""How many compactions back a zombie is still told that its own is over."""


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
    is_checkpoint = source.get("kind") == "plugin" and source.get("plugin") == "compact"
    return source if is_checkpoint else None


class Brackets:
    """The open bracket, None when there is none, and digests of the last ids, in order of start.

    A compaction's id names it for good: once it is over, nothing more of that id is admitted.
    """

    __slots__ = ("open", "started")

    def __init__(self, open_: Bracket | None = None, started: tuple[bytes, ...] = ()) -> None:
        self.open = open_
        self.started = started

    def copy(self) -> Brackets:
        """Return an independent copy."""
        return Brackets(self.open, self.started)

    def to_json(self) -> JsonValue:
        """Return a compact form for snapshots."""
        return [None if self.open is None else self.open.to_json(), pack_digests(self.started)]

    @classmethod
    def from_json(cls, value: Any) -> Brackets:
        """Return what `to_json` was given."""
        open_, started = value
        bracket = None if open_ is None else Bracket.from_json(open_)
        return cls(bracket, tuple(unpack_digests(started)))

    def knows(self, compaction_id: str) -> bool:
        """Return whether a bracket of that id was opened, as far back as is remembered."""
        return _digest(compaction_id) in self.started

    def check(self, event: JsonObject, surface: SurfaceNodes) -> None:
        """Raise AdmissionError `compaction.*` for what the brackets so far forbid."""
        rule = _RULES.get(str(event["type"]))
        if rule is not None:
            rule(self, event["data"])
            return
        source = checkpoint_source(event)
        if source is not None:
            _check_checkpoint(_matching(self, source, "checkpoint"), event, surface)
        elif self.open is not None and is_replacement(event):
            raise _busy(self.open, "a replacement")

    def advance(self, event: JsonObject, writer_id: str) -> None:
        """Fold one event of the log, admitted live or imported."""
        kind, data = event["type"], event["data"]
        if kind == "compaction/start":
            self.open = _started(data, writer_id)
            started = (*self.started, _digest(self.open.compaction_id))
            self.started = started[-REMEMBERED_BRACKETS:]
        elif self.open is None:
            return
        elif kind in ("compaction/end", "session/end-seed"):
            self.open = None
        elif kind == "compaction/summary":
            self.open = self.open._replace(shadowed=_shadowed_seqs(data))
        elif checkpoint_source(event) is not None:
            self.open = self.open._replace(replaced=True)


def _started(data: JsonValue, writer_id: str) -> Bracket:
    return Bracket(
        text_or_json(member(data, "compactionId")),
        text_member(data, "sourceCommandId"),
        whole_member(data, "turn"),
        writer_id,
    )


def _check_start(brackets: Brackets, data: JsonValue) -> None:
    if brackets.open is not None:
        raise _busy(brackets.open, "a compaction/start")
    compaction_id = _compaction_id(data)
    _command_id(data)
    _turn(data)
    if brackets.knows(compaction_id):
        raise AdmissionError(
            "compaction.closed",
            f"compaction {compaction_id} was opened before and is over: take a new id",
        )


def _check_summary(brackets: Brackets, data: JsonValue) -> None:
    own = _matching(brackets, data, "compaction/summary")
    if own.shadowed is not None:
        raise _invalid(f"compaction {own.compaction_id} has its summary already")
    check_shadowed(data)


def check_shadowed(data: JsonValue) -> list[JsonValue]:
    """Return the seqs that a summary or a prune says it shadows, at least one (SEMANTICS 2).

    Raises AdmissionError `compaction.invalid` unless they, their range and their price are sound.
    """
    seqs, span = list_member(data, "shadowedSeqs"), object_member(data, "shadowedRange")
    if not seqs or not all(map(is_count, seqs)):
        raise _invalid("shadowedSeqs names at least one node, and seqs alone")
    if not same_json([span.get("start"), span.get("end")], [seqs[0], seqs[-1]]):
        raise _invalid("shadowedRange names the first and the last of shadowedSeqs")
    if not is_count(member(data, "shadowedTokenCount")):
        raise _invalid("shadowedTokenCount must be an integer >= 0")
    return seqs


def _check_end(brackets: Brackets, data: JsonValue) -> None:
    own = _matching(brackets, data, "compaction/end")
    if _turn(data) != own.turn:
        raise _invalid(
            f"compaction/end names another turn than its start, {own.turn}: repeat that one"
        )
    if own.shadowed is None and member(data, "error") is None:
        raise _invalid("compaction/end without a summary: say in `error` why the compaction failed")


def _check_checkpoint(own: Bracket, event: JsonObject, surface: SurfaceNodes) -> None:
    if own.shadowed is None or own.replaced:
        what = "has no summary yet" if own.shadowed is None else "has replaced its span already"
        raise _invalid(
            f"compaction {own.compaction_id} {what}: append one summary, then one checkpoint"
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


def _matching(brackets: Brackets, named: JsonValue, what: str) -> Bracket:
    """Return the open bracket, when it is the named one."""
    compaction_id, bracket = _compaction_id(named), brackets.open
    if bracket is not None and bracket.compaction_id == compaction_id:
        if _command_id(named) != bracket.source_command_id:
            raise _invalid(
                f"{what} names another sourceCommandId than compaction/start did: repeat that one"
            )
        return bracket
    if brackets.knows(compaction_id):
        raise AdmissionError(
            "compaction.closed",
            f"{what} of compaction {compaction_id}, which was ended or made stale meanwhile:"
            " nothing of it may be appended; begin a new one if it is still needed",
        )
    if bracket is not None and what == "checkpoint":
        raise _busy(bracket, "a replacement")
    raise _invalid(
        f"{what} of compaction {compaction_id}, which was never started: append its"
        " compaction/start first"
    )


def _compaction_id(named: JsonValue) -> str:
    compaction_id = text_member(named, "compactionId")
    if not compaction_id:
        raise _invalid("compactionId must be a non-empty string")
    return compaction_id


def _command_id(named: JsonValue) -> str | None:
    command_id = member(named, "sourceCommandId")
    if command_id is not None and not (isinstance(command_id, str) and command_id):
        raise _invalid("sourceCommandId must be a non-empty string, or left out")
    return command_id


def _turn(data: JsonValue) -> int | None:
    turn = whole_member(data, "turn")
    if turn is None and member(data, "turn") is not None:
        raise _invalid("turn must be the number of the turn that was open, or null")
    return turn


def _shadowed_seqs(data: JsonValue) -> tuple[int, ...]:
    return tuple(int(seq) for seq in list_member(data, "shadowedSeqs") if is_count(seq))  # type: ignore[arg-type]  # a count


def _digest(compaction_id: str) -> bytes:
    text = compaction_id.encode("utf-8", "surrogatepass")
    return blake2b(text, digest_size=DIGEST_BYTES).digest()


def _invalid(message: str) -> AdmissionError:
    return AdmissionError("compaction.invalid", message)


def _busy(bracket: Bracket, what: str) -> AdmissionError:
    return AdmissionError(
        "compaction.busy",
        f"{what} while compaction {bracket.compaction_id} of {bracket.writer_id} is open: wait"
        " until it has ended",
    )


_RULES: Final[dict[str, Callable[[Brackets, JsonValue], None]]] = {
    "compaction/start": _check_start,
    "compaction/summary": _check_summary,
    "compaction/end": _check_end,
}
