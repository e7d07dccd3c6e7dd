"""The tool-result pruner: long results lose their middle, deterministically (SEMANTICS 5).

Lengths are Unicode code points over a result's text blocks taken together. The head and the
tail stay, one marker stands for what was between, blocks of other kinds stay where they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from surfacelog.projections.messages import message_of
from surfacelog.projections.tokens import message_price
from surfacelog.schemas.errors import CorruptLogError, SurfacelogError
from surfacelog.schemas.json_value import (
    is_safe_integer,
    list_member,
    member,
    object_member,
    text_member,
)
from surfacelog.schemas.utf16 import join_pairs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from surfacelog.schemas.json_value import JsonObject, JsonValue

MARKER: Final = "\n\n[... tool result middle pruned ...]\n\n"


class PruneConfigError(SurfacelogError):
    """The pruner's lengths contradict each other."""

    code: ClassVar[str] = "prune_config"


@dataclass(frozen=True, slots=True)
class PrunePolicy:
    """Lengths in code points: results longer than `threshold` keep `head` and `tail`.

    Raises PruneConfigError unless head, marker and tail together fit into the threshold: a
    pruned result must be shorter, and must not be pruned again.
    """

    threshold: int = 8192
    head: int = 4096
    tail: int = 1024

    def __post_init__(self) -> None:
        if self.threshold <= 0 or self.head < 0 or self.tail < 0:
            raise PruneConfigError("threshold is at least 1, head and tail are at least 0")
        left = self.head + len(MARKER) + self.tail
        if left > self.threshold:
            raise PruneConfigError(
                f"head + marker + tail make {left}: at most the threshold, {self.threshold}"
            )


def prune_policy(settings: Mapping[str, object]) -> PrunePolicy:
    """Return the policy of settings named as its fields; one that is None has its default.

    Raises PruneConfigError for an unknown name or a value that is no whole number.
    """
    given: dict[str, int] = {}
    for name, value in settings.items():
        if name not in ("threshold", "head", "tail"):
            raise PruneConfigError(f"the pruner has no {name}: is it misspelled?")
        if value is None:
            continue
        if not is_safe_integer(value):
            raise PruneConfigError(f"{name} is a whole number of code points, not {value!r}")
        given[name] = int(value)  # type: ignore[call-overload]  # a whole number: just checked
    return PrunePolicy(**given)


@dataclass(frozen=True, slots=True)
class Pruned:
    """One pruned result: the node `seq`, its text's length before and after, and two events
    without seq, to be appended together: the shadow price and the replacement."""

    seq: int
    call_id: JsonValue
    before: int
    after: int
    price_event: JsonObject
    replacement: JsonObject


def text_length(blocks: JsonValue) -> int:
    """Return the code points of all text blocks.

    Raises CorruptLogError for what is no list of blocks, and for a text block without a text.
    """
    if not isinstance(blocks, list):
        raise CorruptLogError("content is a list of blocks")
    return sum(len(_text(block)) for block in blocks if _is_text(block))


def prune_blocks(blocks: list[JsonValue], policy: PrunePolicy) -> list[JsonValue] | None:
    """Return the blocks without the middle of their text; None when it is short enough."""
    total = text_length(blocks)
    if total <= policy.threshold:
        return None
    removed_from, removed_to = policy.head, total - policy.tail
    pruned: list[JsonValue] = []
    start, marked = 0, False
    for block in blocks:
        if not isinstance(block, dict) or not _is_text(block):
            pruned.append(block)
            continue
        text = _text(block)
        end = start + len(text)
        meets_removed = start < removed_to and end > removed_from
        kept = text[: max(0, removed_from - start)]
        kept += MARKER if meets_removed and not marked else ""
        kept += text[max(0, removed_to - start) :]
        marked = marked or meets_removed
        if kept:
            pruned.append({**block, "text": kept})
        start = end
    return pruned


def prune_results(
    nodes: Iterable[tuple[int, JsonObject]], policy: PrunePolicy, time: int
) -> list[Pruned]:
    """Return what pruning does to a surface, given as (seq, event) in order.

    `time` (ms) is that of the events to append. Each replacement cites the node that it takes
    the place of, and follows its shadow price at once.
    """
    found = (_prune_result(seq, event, policy, time) for seq, event in nodes)
    return [pruned for pruned in found if pruned is not None]


def _prune_result(seq: int, event: JsonObject, policy: PrunePolicy, time: int) -> Pruned | None:
    message = message_of(event)
    block = next(iter(list_member(message, "content")), None)
    if event.get("type") != "tool/result" or not isinstance(block, dict):
        return None
    blocks = list_member(block, "content")
    content = prune_blocks(blocks, policy)
    if content is None:
        return None
    price: JsonObject = {
        "shadowedRange": {"start": seq, "end": seq},
        "shadowedSeqs": [seq],
        "shadowedTokenCount": message_price(message),
    }
    data = {**object_member(event, "data")}
    data["message"] = {**message, "content": [{**block, "content": content}]}
    replacement: JsonObject = {
        "type": "tool/result",
        "time": time,
        "data": data,
        "sourceEventSeqs": [seq],
        "surfaceOp": {"op": "replace", "start": seq, "end": seq},
    }
    return Pruned(
        seq=seq,
        call_id=member(object_member(message, "source"), "callId"),
        before=text_length(blocks),
        after=text_length(content),
        price_event={"type": "compaction/prune", "time": time, "data": price},
        replacement=replacement,
    )


def _is_text(block: JsonValue) -> bool:
    return member(block, "type") == "text"


def _text(block: JsonValue) -> str:
    text = text_member(block, "text")
    if text is None:
        raise CorruptLogError("a text block has no text")
    return join_pairs(text)
