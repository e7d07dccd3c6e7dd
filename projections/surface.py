"""The Surface as a fold of the log (SEMANTICS 3, "surface rules" and "effect").

A surface event appends its seq, or takes the place of a span of nodes. Nothing is ever edited:
what is shadowed stays in the log. An event that breaks a rule is refused and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surfacelog.projections.surface_rules import check_citations, fixed_part, span_positions
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.json_equal import same_json
from surfacelog.schemas.surface_form import is_surface_type, replaced_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import SeqRange


@dataclass(frozen=True, slots=True)
class Replacement:
    """`seq` took the place of the nodes from `start` to `end`: `shadowed`, in surface order."""

    seq: int
    start: int
    end: int
    shadowed: tuple[int, ...]


class SurfaceFold:
    """The surface after the events applied so far; they begin at seq 0 and have no gaps.

    `nodes` are the current node seqs in the model's order, `generation` counts replacements.
    O(1) an event, O(nodes) a replacement.
    """

    __slots__ = ("_results", "next_seq", "nodes", "replacements")

    def __init__(self) -> None:
        self.next_seq = 0
        self.nodes: list[int] = []
        self.replacements: list[Replacement] = []
        # The data of the tool/result nodes: a replacement may change only their content.
        self._results: dict[int, JsonValue] = {}

    @property
    def generation(self) -> int:
        """How many replacements there were."""
        return len(self.replacements)

    def apply(self, event: JsonValue) -> Replacement | None:
        """Take the next event; return the replacement that it made, if any.

        Raises AdmissionError `malformed` when it is not the next one, `surface.op`,
        `surface.span`, `surface.sources` or `surface.tool_result` when it breaks that rule.
        """
        if not isinstance(event, dict) or not self._is_next(event.get("seq")):
            raise AdmissionError("malformed", f"not an event with the next seq, {self.next_seq}")
        span = replaced_range(event)
        replacement = None
        if span is not None:
            replacement = self._replace(event, span)
        elif is_surface_type(event.get("type")):
            check_citations(event, self.next_seq, ())
            self.nodes.append(self.next_seq)
        if event.get("type") == "tool/result":
            self._results[self.next_seq] = event.get("data")
        self.next_seq += 1
        return replacement

    def _is_next(self, seq: JsonValue) -> bool:
        return not isinstance(seq, bool) and seq == self.next_seq

    def _replace(self, event: JsonObject, span: SeqRange) -> Replacement:
        positions = span_positions(self.nodes, span)
        shadowed = tuple(self.nodes[positions])
        check_citations(event, self.next_seq, shadowed)
        if event.get("type") == "tool/result":
            self._check_tool_result(event, shadowed)
        self.nodes[positions] = [self.next_seq]
        for seq in shadowed:
            self._results.pop(seq, None)
        replacement = Replacement(self.next_seq, span.start, span.end, shadowed)
        self.replacements.append(replacement)
        return replacement

    def _check_tool_result(self, event: JsonObject, shadowed: tuple[int, ...]) -> None:
        if len(shadowed) != 1:
            raise AdmissionError("surface.tool_result", "a tool/result replaces one node")
        if shadowed[0] not in self._results:
            raise AdmissionError("surface.tool_result", f"{shadowed[0]} is not a tool/result")
        before, after = fixed_part(self._results[shadowed[0]]), fixed_part(event.get("data"))
        if not same_json(before, after):
            raise AdmissionError("surface.tool_result", "more than the block's content changes")


def fold_surface(events: Iterable[JsonValue]) -> SurfaceFold:
    """Return the surface of a log; raises AdmissionError as `SurfaceFold.apply` does."""
    fold = SurfaceFold()
    for event in events:
        fold.apply(event)
    return fold
