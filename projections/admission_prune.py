"""A pruned tool result: compaction/prune and the replacement that it prices stand together.

The prune logs what the shadowed node cost, so that the price of the surface can be told without
the surface (SEMANTICS 5, 10); the replacement follows at once, in the same append (DESIGN 7).
One without the other would leave that price wrong for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.projections.compaction_bracket import check_shadowed
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.json_equal import same_json
from surfacelog.schemas.json_value import member
from surfacelog.schemas.records import ChunkRun

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonValue
    from surfacelog.schemas.records import Item


def check_prune(items: tuple[Item, ...], index: int) -> None:
    """Raise AdmissionError `compaction.invalid` for half of a prune at `index` of an append."""
    kind = _type(items, index)
    if kind == "compaction/prune":
        _pruned_node(items[index])
        if _type(items, index + 1) != "tool/result":
            raise _invalid(
                "a compaction/prune that no tool/result replacement follows at once: append both"
                " together, the prune first"
            )
    elif kind == "tool/result" and not _is_pruned(items, index):
        raise _invalid(
            "a tool/result replacement right behind no compaction/prune that names its node:"
            " append both together, the prune first"
        )


def _is_pruned(items: tuple[Item, ...], index: int) -> bool:
    replacement = items[index]
    if isinstance(replacement, ChunkRun) or _type(items, index - 1) != "compaction/prune":
        return False
    start = member(replacement.get("surfaceOp"), "start")
    return same_json(_pruned_node(items[index - 1]), start)


def _type(items: tuple[Item, ...], index: int) -> JsonValue:
    item = items[index] if 0 <= index < len(items) else None
    return None if item is None or isinstance(item, ChunkRun) else item.get("type")


def _pruned_node(prune: Item) -> JsonValue:
    """Return the one node that a compaction/prune names."""
    data = None if isinstance(prune, ChunkRun) else prune["data"]
    seqs = check_shadowed(data)
    if len(seqs) != 1:
        raise _invalid("a compaction/prune shadows one node: shadowedSeqs is its seq")
    return seqs[0]


def _invalid(message: str) -> AdmissionError:
    return AdmissionError("compaction.invalid", message)
