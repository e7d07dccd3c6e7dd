"""The relations between the events of a compaction (SEMANTICS 3, "compaction invariants").

One bracket is open at a time; its start, summary, checkpoint and end name the same compaction
and command; it has at most one summary, and one unless it failed; it does not cross a turn
boundary. session/end-seed makes an open bracket stale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from surfacelog.projections.invariants import InvariantError, check_trace, data_of, names
from surfacelog.schemas.json_equal import same_json
from surfacelog.schemas.json_text import js_dumps
from surfacelog.schemas.json_value import is_count, list_member, member

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue


def check_compaction_invariants(events: Sequence[JsonValue], *, live: bool = False) -> None:
    """Raise InvariantError for the first event that breaks a relation.

    A stored log may close a turn across a bracket that a later end-seed shows to be stale;
    `live` judges each event without knowing what follows.
    """
    stale = frozenset() if live else _stale_starts(events)
    check_trace(CompactionTrace(stale), events)


@dataclass(slots=True)
class _Bracket:
    start: int
    compaction_id: str
    command_id: JsonValue
    turn: JsonValue
    turn_named: bool
    summarized: bool = False


class CompactionTrace:
    """The open bracket and turn after the events taken so far.

    `stale` has the places of the starts (counting the log's events) that a later end-seed makes
    stale before anything ends them.
    """

    def __init__(self, stale: frozenset[int] = frozenset()) -> None:
        self._stale = stale
        self._place = -1
        self._turn: JsonValue = None
        self._open: _Bracket | None = None

    def take(self, event: JsonObject) -> None:
        """Judge an event and take it in; InvariantError leaves the trace as it was."""
        self._place += 1
        kind = event.get("type")
        rule = _RULES.get(kind) if isinstance(kind, str) else None
        if rule is not None:
            rule(self, event)

    def _turn_start(self, event: JsonObject) -> None:
        self._no_crossing(event)
        self._turn = data_of(event).get("turn")

    def _turn_end(self, event: JsonObject) -> None:
        self._no_crossing(event)
        self._turn = None

    def _no_crossing(self, event: JsonObject) -> None:
        if self._open is not None and self._open.start not in self._stale:
            raise InvariantError(f"{event.get('type')} crosses an open compaction")

    def _start(self, event: JsonObject) -> None:
        data = data_of(event)
        compaction_id = _identity(data, "compaction/start")
        if self._open is not None:
            raise InvariantError("compaction/start while another compaction is open")
        turn, named = data.get("turn"), "turn" in data
        self._check_owner(turn, named)
        command = data.get("sourceCommandId")
        self._open = _Bracket(self._place, compaction_id, command, turn, named)

    def _summary(self, event: JsonObject) -> None:
        data = data_of(event)
        bracket = self._matching(data, "compaction/summary")
        self._check_owner(bracket.turn, bracket.turn_named)
        if bracket.summarized:
            raise InvariantError("a second summary in one compaction")
        seqs, span = list_member(data, "shadowedSeqs"), data.get("shadowedRange")
        if not seqs:
            raise InvariantError("a summary shadows at least one node")
        if span is None or not _names_ends(span, seqs):
            raise InvariantError("shadowedRange names the first and the last of shadowedSeqs")
        if not is_count(data.get("shadowedTokenCount")):
            raise InvariantError("shadowedTokenCount is a number of tokens")
        bracket.summarized = True

    def _end(self, event: JsonObject) -> None:
        data = data_of(event)
        bracket = self._matching(data, "compaction/end")
        same_owner = names(data, "turn", bracket.turn) if bracket.turn_named else "turn" not in data
        if not same_owner:
            raise InvariantError(
                f"compaction/end has another owner than turn {_shown(bracket.turn)}"
            )
        self._check_owner(bracket.turn, bracket.turn_named)
        if "error" not in data and not bracket.summarized:
            raise InvariantError("a compaction that did not fail has a summary")
        self._open = None

    def _checkpoint(self, event: JsonObject) -> None:
        """Any other user message, and one that replaces nothing, passes."""
        if event.get("surfaceOp", "append") == "append":
            return
        source = data_of(event).get("source")
        if not isinstance(source, dict):
            if source is None:
                raise InvariantError("a user/message has a source")
            return
        if source.get("kind") == "plugin" and source.get("plugin") == "compact":
            self._matching(source, "a checkpoint")

    def _end_seed(self, _event: JsonObject) -> None:
        self._open = None

    def _matching(self, data: JsonObject, what: str) -> _Bracket:
        """Return the open bracket, to which these identities must belong."""
        compaction_id = _identity(data, what)
        if self._open is None:
            raise InvariantError(f"{what} without an open compaction")
        if compaction_id != self._open.compaction_id:
            raise InvariantError(f"{what} names another compaction than the open one")
        if not same_json(data.get("sourceCommandId"), self._open.command_id):
            raise InvariantError(f"{what} names another command than the open compaction")
        return self._open

    def _check_owner(self, turn: JsonValue, named: bool) -> None:
        """A numbered bracket stands in its turn, one that names null stands between turns."""
        owner_is_null = named and turn is None
        if owner_is_null and self._turn is not None:
            raise InvariantError(f"a standalone compaction inside turn {_shown(self._turn)}")
        if not owner_is_null and (self._turn is None or not same_json(turn, self._turn)):
            raise InvariantError(
                f"a compaction of turn {_shown(turn)}; the open turn is {_shown(self._turn)}"
            )


def _shown(turn: JsonValue) -> str:
    return js_dumps(turn)[:40]


def _identity(data: JsonObject, what: str) -> str:
    compaction_id = data.get("compactionId")
    if not isinstance(compaction_id, str) or not compaction_id:
        raise InvariantError(f"{what} has a compactionId")
    if "sourceCommandId" in data and not (
        isinstance(data["sourceCommandId"], str) and data["sourceCommandId"]
    ):
        raise InvariantError(f"{what} has a sourceCommandId that is a text, or none")
    return compaction_id


def _names_ends(span: JsonValue, seqs: list[JsonValue]) -> bool:
    return same_json(member(span, "start"), seqs[0]) and same_json(member(span, "end"), seqs[-1])


def _stale_starts(events: Sequence[JsonValue]) -> frozenset[int]:
    stale, last_start, place = set(), None, -1
    for event in events:
        if not isinstance(event, dict):
            continue
        place += 1
        kind = event.get("type")
        if kind == "compaction/start":
            last_start = place
        elif kind in ("compaction/end", "session/end-seed"):
            if kind == "session/end-seed" and last_start is not None:
                stale.add(last_start)
            last_start = None
    return frozenset(stale)


_RULES: Final[dict[str, Callable[[CompactionTrace, JsonObject], None]]] = {
    "turn/start": CompactionTrace._turn_start,
    "turn/end": CompactionTrace._turn_end,
    "compaction/start": CompactionTrace._start,
    "compaction/summary": CompactionTrace._summary,
    "compaction/end": CompactionTrace._end,
    "user/message": CompactionTrace._checkpoint,
    "session/end-seed": CompactionTrace._end_seed,
}
