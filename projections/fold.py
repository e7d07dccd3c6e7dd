"""Everything that a session's log derives, in one pass: for files, for looks back, for checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surfacelog.projections.compaction_range import compactable_range
from surfacelog.projections.messages import derived_message
from surfacelog.projections.meter import Measurement, Meter, MeterError
from surfacelog.projections.pairing import pairing_delta
from surfacelog.projections.request_header import canonical_header
from surfacelog.projections.surface import Replacement, SurfaceFold
from surfacelog.projections.tokens import header_price, message_price
from surfacelog.schemas.json_value import member
from surfacelog.schemas.surface_form import is_surface_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import SeqRange


@dataclass(frozen=True, slots=True)
class FoldedLog:
    """The state after the last of `events` events.

    `nodes` are the surface's seqs, `messages` and `prices` (tokens) theirs, in order; a node
    without a message (an empty assistant) has None and costs 0. `header` and `context` are the
    last ones, None before the first. `measurement` is None when the meter refuses, and
    `refusal` says why.
    """

    events: int
    nodes: tuple[int, ...]
    messages: tuple[JsonObject | None, ...]
    prices: tuple[int, ...]
    deltas: tuple[int, ...]
    replacements: tuple[Replacement, ...]
    header: JsonObject | None
    header_tokens: int
    context: JsonObject | None
    measurement: Measurement | None
    refusal: str | None

    @property
    def generation(self) -> int:
        """How many replacements there were."""
        return len(self.replacements)

    @property
    def surface_tokens(self) -> int:
        """What the surface costs."""
        return sum(self.prices)

    def tokens(self) -> JsonObject:
        """Return the figures as the command line prints them: {surface, header, total, baseline}.

        total and baseline are null, with a `reason`, when the meter refuses the log.
        """
        tokens: JsonObject = {"surface": self.surface_tokens, "header": self.header_tokens}
        if self.measurement is None:
            return {**tokens, "total": None, "baseline": None, "reason": self.refusal}
        return {
            **tokens,
            "total": self.measurement.total,
            "baseline": self.measurement.baseline,
        }

    def compactable_range(self, retain_tokens: int) -> SeqRange | None:
        """Return the span that leaves a tail worth `retain_tokens`, None when there is none.

        Raises CorruptLogError for a surface with a result that answers no call.
        """
        return compactable_range(self.nodes, self.prices, self.deltas, retain_tokens)


class LogFold:
    """The fold, event by event. O(1) an event, O(nodes) a replacement."""

    def __init__(self) -> None:
        self._surface = SurfaceFold()
        self._meter = Meter()
        self._nodes: dict[int, tuple[JsonObject | None, int, int]] = {}
        self._header: JsonObject | None = None
        self._context: JsonObject | None = None

    def apply(self, event: JsonObject) -> None:
        """Take the next event; raises AdmissionError as `SurfaceFold.apply` does."""
        seq = self._surface.next_seq
        replacement = self._surface.apply(event)
        shadowed = () if replacement is None else replacement.shadowed
        self._meter.apply(event, sum(self._nodes.pop(node)[1] for node in shadowed))
        if is_surface_type(event.get("type")):
            message = derived_message(event)
            self._nodes[seq] = (message, message_price(message), pairing_delta(event))
        elif event.get("type") == "request/header":
            self._header = canonical_header(member(event.get("data"), "header"))
        elif event.get("type") == "request/context":
            data = event.get("data")
            self._context = data if isinstance(data, dict) else {}

    def result(self) -> FoldedLog:
        """Return the state after the events so far."""
        nodes = self._surface.nodes
        ordered = [self._nodes[seq] for seq in nodes]
        measurement, refusal = self._measure()
        return FoldedLog(
            events=self._surface.next_seq,
            nodes=tuple(nodes),
            messages=tuple(message for message, _, _ in ordered),
            prices=tuple(price for _, price, _ in ordered),
            deltas=tuple(delta for _, _, delta in ordered),
            replacements=tuple(self._surface.replacements),
            header=self._header,
            header_tokens=header_price(self._header),
            context=self._context,
            measurement=measurement,
            refusal=refusal,
        )

    def _measure(self) -> tuple[Measurement | None, str | None]:
        try:
            return self._meter.measure(), None
        except MeterError as error:
            return None, error.message


def fold_log(events: Iterable[JsonValue]) -> FoldedLog:
    """Return what a whole log derives; raises AdmissionError for one that breaks a surface rule."""
    fold = LogFold()
    for event in events:
        fold.apply(event if isinstance(event, dict) else {})
    return fold.result()
