"""Views of what a session used and how full its context is (SEMANTICS 10).

All three are folds of a fixed handful of numbers. The price of the surface is kept without the
surface: whoever replaces a span logs its price right before (compaction/summary and
compaction/prune), and the fold takes that price off. A replacement without one, as old logs
have, leaves the figure as it was; a price for another span is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Final

from surfacelog.projections.messages import derived_message
from surfacelog.projections.request_header import stated_header
from surfacelog.projections.tokens import (
    is_priceable,
    message_price,
    system_price,
    tools_price,
)
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_equal import same_json
from surfacelog.schemas.json_text import js_dumps
from surfacelog.schemas.json_value import is_count, is_number, member, object_member
from surfacelog.schemas.surface_form import is_surface_type

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

_PLACE: Final = ("turn", "step")
Buckets = dict[str, float]
_ZERO: Final[Buckets] = {
    "uncachedInputTokens": 0,
    "outputTokens": 0,
    "cacheReadTokens": 0,
    "cacheWriteTokens": 0,
}


class TokenUsage:
    """What the providers counted: one sample for each turn and step, the last one there.

    `totals` has uncachedInputTokens, outputTokens, cacheReadTokens and cacheWriteTokens; `last`
    is the last sample with its place, {turn, step}, as far as it names one.
    """

    def __init__(self) -> None:
        self.totals: Buckets = dict(_ZERO)
        self.last: tuple[JsonObject, Buckets] | None = None

    def apply(self, event: JsonObject) -> None:
        """Take the next event; CorruptLogError for a usage sample that is malformed."""
        usage = _usage_of(event)
        if usage is None:
            return
        data = object_member(event, "data")
        place: JsonObject = {name: data[name] for name in _PLACE if name in data}
        buckets = _buckets(usage)
        previous = _ZERO
        if self.last is not None and same_json(place, self.last[0]):
            previous = self.last[1]
        for name, count in buckets.items():
            self.totals[name] += count - previous[name]
        self.last = (place, buckets)

    def view(self) -> Buckets:
        """Return the totals; CorruptLogError when the samples add up to less than nothing."""
        if not all(map(is_count, self.totals.values())):
            raise CorruptLogError(f"the usage samples add up to {self.totals}")
        return dict(self.totals)


@dataclass(frozen=True, slots=True)
class Claim:
    """The price of a span that the next event is to replace."""

    start: JsonValue
    end: JsonValue
    tokens: float


class SurfacePrice:
    """The surface's price by logged shadow prices, O(1) in memory.

    `claim` is the price of the span that the next event is to replace, if one was just logged.
    """

    def __init__(self) -> None:
        self.tokens: float = 0
        self.claim: Claim | None = None

    def apply(self, event: JsonObject) -> None:
        """Take the next event; CorruptLogError for a price that is not of the span replaced."""
        self.tokens += self.change(event)

    def change(self, event: JsonObject) -> float:
        """Return what the event adds to the price, and remember the price that it announces."""
        claim, self.claim = self.claim, None
        if event.get("type") in ("compaction/summary", "compaction/prune"):
            self.claim = _claim_of(event)
            return 0
        if not is_surface_type(event.get("type")) or "surfaceOp" not in event:
            return 0
        price = _strict_price(event)
        op = event["surfaceOp"]
        if op == "append":
            return price
        if claim is None:
            return 0
        if not same_json(member(op, "start"), claim.start) or not same_json(
            member(op, "end"), claim.end
        ):
            raise CorruptLogError("the price that was logged is not of the span replaced")
        return price - claim.tokens


class ContextPressure:
    """How full the context is: the newest sample, moved along with the surface since.

    `pressure` is the sample's input and cache tokens, `sampled` the surface's price when it was
    taken (before its own message joined), None before there is one; `window` is the route's
    capacity, {contextWindow} or empty. All in tokens.
    """

    def __init__(self) -> None:
        self.surface = SurfacePrice()
        self.window: JsonObject = {}
        self.pressure: float | None = None
        self.sampled: float | None = None

    def apply(self, event: JsonObject) -> None:
        """Take the next event; CorruptLogError as the parts of this view do."""
        change = self.surface.change(event)
        if event.get("type") == "request/context":
            if event.get("data") is None:
                raise CorruptLogError("request/context has no data")
            data = event["data"]
            known = isinstance(data, dict) and "contextWindow" in data
            self.window = {"contextWindow": member(data, "contextWindow")} if known else {}
        usage = _usage_of(event)
        if usage is not None:
            buckets = _buckets(usage)
            self.pressure = sum(count for name, count in buckets.items() if name != "outputTokens")
            self.sampled = self.surface.tokens
        self.surface.tokens += change

    def view(self) -> JsonObject:
        """Return {pressureTokens?, projectedTokens?, contextWindow?}, each where it is known.

        `projectedTokens` is what the next request's input is expected to be, not below 0. Raises
        CorruptLogError for a figure that no context can have.
        """
        view: JsonObject = {}
        if self.pressure is not None and self.sampled is not None:
            view["pressureTokens"] = self.pressure
            # In this order NaN stays NaN, and is refused below.
            view["projectedTokens"] = max(self.pressure + self.surface.tokens - self.sampled, 0)
        view |= self.window
        if not all(map(is_count, view.values())) or view.get("contextWindow") == 0:
            raise CorruptLogError(f"the context pressure is {js_dumps(view)[:200]}")
        return view


class ContextBreakdown:
    """What the context is made of, by the rule of thumb: system prompt, tools, messages."""

    def __init__(self) -> None:
        self.system = 0
        self.tools = 0
        self.messages = SurfacePrice()

    def apply(self, event: JsonObject) -> None:
        """Take the next event; CorruptLogError as `SurfacePrice` and `stated_header` do."""
        self.messages.apply(event)
        if event.get("type") == "request/header":
            header = stated_header(event)
            self.system = system_price(header.get("system"))
            self.tools = tools_price(header.get("tools"))

    def view(self) -> JsonObject:
        """Return {systemTokens, toolsTokens, messageTokens}.

        Raises CorruptLogError when the logged prices add up to less than nothing.
        """
        if not is_count(self.messages.tokens):
            raise CorruptLogError(f"the messages cost {self.messages.tokens} tokens")
        return {
            "systemTokens": self.system,
            "toolsTokens": self.tools,
            "messageTokens": self.messages.tokens,
        }


def _usage_of(event: JsonObject) -> JsonObject | None:
    """Return the usage that an event reports; None when it reports none."""
    data = event.get("data")
    if event.get("type") == "assistant/chunk":
        chunk = member(data, "chunk")
        if chunk is None:
            raise CorruptLogError("assistant/chunk has no chunk")
        if member(chunk, "type") != "usage":
            return None
        usage = member(chunk, "usage")
    elif event.get("type") == "assistant/message":
        if data is None:
            raise CorruptLogError("assistant/message has no data")
        if not isinstance(data, dict) or "usage" not in data:
            return None
        usage = data["usage"]
    else:
        return None
    if usage is None:
        raise CorruptLogError("usage is an object")
    return usage if isinstance(usage, dict) else {}


def _buckets(usage: JsonObject) -> Buckets:
    return {
        "uncachedInputTokens": _number(usage.get("inputTokens", "missing")),
        "outputTokens": _number(usage.get("outputTokens", "missing")),
        "cacheReadTokens": _number(usage.get("cacheReadTokens")),
        "cacheWriteTokens": _number(usage.get("cacheWriteTokens")),
    }


def _number(value: JsonValue) -> float:
    """Return a count, null as 0; NaN for what cannot be counted, which the views then refuse."""
    if value is None:
        return 0
    return value if is_number(value) else nan  # type: ignore[return-value]  # a number


def _claim_of(event: JsonObject) -> Claim:
    data = event.get("data")
    span = member(data, "shadowedRange")
    if span is None or not isinstance(data, dict):
        raise CorruptLogError(f"{event.get('type')} has no span")
    tokens = _number(data.get("shadowedTokenCount", "missing"))
    return Claim(member(span, "start"), member(span, "end"), tokens)


def _strict_price(event: JsonObject) -> int:
    data = event.get("data")
    if event.get("type") == "user/message" and "data" in event and data is None:
        return 0
    message = derived_message(event)
    if message is None:
        return 0
    if not is_priceable(message.get("content")):
        raise CorruptLogError("a message has a block that cannot be priced")
    return message_price(message)
