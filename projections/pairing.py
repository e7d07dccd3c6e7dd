"""Where the surface may be cut without parting a tool call from its result (SEMANTICS 5)."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from surfacelog.projections.messages import message_of, tool_call_blocks
from surfacelog.schemas.errors import CorruptLogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from surfacelog.schemas.json_value import JsonObject


def pairing_delta(event: JsonObject) -> int:
    """Return what a node adds to the count of unanswered calls: its calls, or -1 for a result."""
    if event.get("type") == "tool/result":
        return -1
    if event.get("type") == "assistant/message":
        return len(tool_call_blocks(message_of(event)))
    return 0


def balanced_cuts(deltas: Iterable[int]) -> list[bool]:
    """Return for each of the n+1 cuts (before the first node, after each) whether it is balanced.

    Raises CorruptLogError when a result on the surface answers no call before it.
    """
    counts = list(accumulate(deltas, initial=0))
    if min(counts) < 0:
        raise CorruptLogError("a tool result on the surface has no matching tool call before it")
    return [count == 0 for count in counts]


def is_balanced(deltas: Sequence[int], first: int, last: int) -> bool:
    """Return whether the span of positions first..last (inclusive) may be cut out.

    Raises CorruptLogError as `balanced_cuts`.
    """
    cuts = balanced_cuts(deltas)
    return cuts[first] and cuts[last + 1]
