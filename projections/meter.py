"""How much of the context window the next request will take (SEMANTICS 4, "measure").

The provider's own count of the last answered request is the anchor, and the surface's change
since then, priced by the rule of thumb, is added to it. An anchor holds for the request header
that it was taken under, and only while it is not below the rule of thumb.

The meter folds the log incrementally. It does not keep the surface: whoever does tells it what
a replacement shadowed. Its state is small and goes in and out of JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from sys import float_info
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from surfacelog.projections.messages import derived_message
from surfacelog.projections.request_header import canonical_header, header_digest, stated_header
from surfacelog.projections.stream_price import StreamPrices
from surfacelog.projections.tokens import header_price, is_priceable, message_price
from surfacelog.schemas.errors import CorruptLogError, SurfacelogError
from surfacelog.schemas.json_text import js_dumps
from surfacelog.schemas.json_value import is_number, member, object_member
from surfacelog.schemas.surface_form import is_surface_type

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

BaselineKind = Literal["usage", "estimated", "none"]


class MeterError(SurfacelogError):
    """The log does not say what a measurement needs, or contradicts itself."""

    code: ClassVar[str] = "meter"


@dataclass(frozen=True, slots=True)
class Measurement:
    """All in tokens. `total` = max(0, `baseline` + `surface_delta`).

    `kind` says where the baseline comes from: the provider's `usage`, the rule of thumb, or
    nothing at all. `surface` is the rule of thumb's price of the whole surface.
    """

    kind: BaselineKind
    baseline: int
    usage: JsonObject | None
    surface_delta: int
    total: int
    surface: int


@dataclass(slots=True)
class _Anchor:
    """The last assistant message: its header's digest, the surface that its request saw, its
    own price, and the provider's usage if there was any (None, or a list of one)."""

    header: str
    surface: int
    usage: list[Any] | None

    def to_json(self) -> JsonObject:
        """Return the fields by name; the usage may be of any depth, `asdict` would recurse."""
        return {"header": self.header, "surface": self.surface, "usage": self.usage}


class Meter:
    """The fold. `surface` is the price of the surface, `header` that of the request header."""

    def __init__(self) -> None:
        self.surface = 0
        self.header = 0
        self._header_digest = ""
        self._tools_listed = True
        self._place: str | None = None
        self._surface_at_step = 0
        self._anchor: _Anchor | None = None
        self._stream = StreamPrices()
        self._refusal: str | None = None

    def apply(self, event: JsonObject, shadowed: int = 0) -> None:
        """Take the next event of the log; `shadowed` is the price of the nodes that it replaces.

        Never raises: a log that cannot be measured is refused by `measure`, and its surface is
        priced all the same.
        """
        if event.get("type") == "request/header":
            self._take_header(event)
        try:
            if self._refusal is None:
                self._fold(event)
        except (CorruptLogError, MeterError) as error:
            self._refusal = f"{event.get('type')} at seq {event.get('seq')} {error.message}"
            self._stream.clear()
        if is_surface_type(event.get("type")):
            self.surface += message_price(derived_message(event)) - shadowed

    def measure(self) -> Measurement:
        """Return the measurement now; MeterError says why there is none."""
        if self._refusal is not None:
            raise MeterError(self._refusal)
        anchor = self._anchor
        if anchor is not None and anchor.header == self._header_digest:
            return self._from_anchor(anchor)
        if not self._header_digest and self.surface == 0:
            return Measurement("none", 0, None, 0, 0, 0)
        estimate = self.header + self.surface
        return Measurement("estimated", estimate, None, 0, estimate, self.surface)

    def to_json(self) -> JsonObject:
        """Return the state; its size follows the open step's stream, not the log."""
        return {
            "surface": self.surface,
            "header": self.header,
            "header_digest": self._header_digest,
            "tools_listed": self._tools_listed,
            "place": self._place,
            "surface_at_step": self._surface_at_step,
            "anchor": None if self._anchor is None else self._anchor.to_json(),
            "stream": self._stream.to_json(),
            "refusal": self._refusal,
        }

    @classmethod
    def from_json(cls, value: Any) -> Meter:
        """Return what `to_json` was given."""
        meter = cls()
        meter.surface, meter.header = value["surface"], value["header"]
        meter._header_digest, meter._tools_listed = value["header_digest"], value["tools_listed"]
        meter._place, meter._surface_at_step = value["place"], value["surface_at_step"]
        meter._anchor = None if value["anchor"] is None else _Anchor(**value["anchor"])
        meter._stream = StreamPrices.from_json(value["stream"])
        meter._refusal = value["refusal"]
        return meter

    def _fold(self, event: JsonObject) -> None:
        kind = event.get("type")
        if kind == "step/start":
            self._start_step(event)
        elif kind == "step/end":
            self._end_step(event)
        elif kind == "assistant/chunk":
            self._take_chunk(event)
        elif is_surface_type(kind):
            message = derived_message(event)
            if message is not None and not is_priceable(message.get("content")):
                raise MeterError("has a block that cannot be priced")
            if kind == "assistant/message":
                self._set_anchor(event)

    def _take_header(self, event: JsonObject) -> None:
        try:
            header = stated_header(event)
        except CorruptLogError as error:
            self._refusal = self._refusal or error.message
            header = canonical_header(member(event.get("data"), "header"))
        self.header = header_price(header)
        self._header_digest = header_digest(header)
        self._tools_listed = isinstance(header.get("tools", []), list)

    def _start_step(self, event: JsonObject) -> None:
        if self._place is not None:
            raise MeterError("comes before the last step has ended")
        self._place = _place(event.get("data"))
        self._surface_at_step = self.surface

    def _end_step(self, event: JsonObject) -> None:
        if self._place is None or self._place != _place(event.get("data")):
            raise MeterError("has no matching step/start")
        self._place = None
        self._stream.clear()

    def _take_chunk(self, event: JsonObject) -> None:
        data, seq = event.get("data"), event.get("seq")
        if isinstance(data, dict) and isinstance(seq, int):
            self._stream.add(seq, _place(data), data.get("chunk"))

    def _set_anchor(self, event: JsonObject) -> None:
        data = object_member(event, "data")
        place = _place(data)
        if self._place is None or self._place != place:
            raise MeterError("has no matching step/start")
        own = message_price(derived_message(event))
        usage = [data["usage"]] if "usage" in data and self._header_digest else None
        sources = event.get("sourceEventSeqs")
        if usage is not None and isinstance(sources, list):
            own = self._stream.price(sources, place)  # type: ignore[arg-type]  # seqs: admitted
        self._anchor = _Anchor(self._header_digest, self._surface_at_step + own, usage)

    def _from_anchor(self, anchor: _Anchor) -> Measurement:
        if self._header_digest and not self._tools_listed:
            raise MeterError("the request header's tools are not a list: they cannot be compared")
        estimate = self.header + anchor.surface
        counted = None if anchor.usage is None else _provider_total(anchor.usage[0])
        delta = self.surface - anchor.surface
        if counted is not None and counted >= estimate and anchor.usage is not None:
            total = max(0, counted + delta)
            return Measurement("usage", counted, anchor.usage[0], delta, total, self.surface)
        total = max(0, estimate + delta)
        return Measurement("estimated", estimate, None, delta, total, self.surface)


def _place(data: JsonValue) -> str:
    """Return turn and step, as JSON text: a missing member and null are different places."""
    if data is None:
        raise MeterError("has no data")
    named = data if isinstance(data, dict) else {}
    turn, step = named.get("turn"), named.get("step")
    if type(turn) is int and type(step) is int:  # a chunk's, as a rule: not worth a JSON printer
        return f"[[{turn}],[{step}]]"
    return js_dumps([[named[key]] if key in named else [] for key in ("turn", "step")])


def _provider_total(usage: JsonValue) -> int | None:
    """Return the sum of the provider's disjoint counts; None when one that must be is missing."""
    if usage is None:
        raise MeterError("the last usage is null")
    counts = [member(usage, "inputTokens"), member(usage, "outputTokens")]
    counts += [member(usage, name) or 0 for name in ("cacheReadTokens", "cacheWriteTokens")]
    if not all(map(is_number, counts)):
        return None
    total = sum(counts)  # type: ignore[arg-type]  # numbers
    if not abs(total) <= float_info.max:
        raise MeterError("the provider's counts add up to no number")
    return total
