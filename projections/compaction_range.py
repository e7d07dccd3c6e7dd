"""Which span a compaction may take, so that a recent tail stays verbatim (SEMANTICS 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.projections.pairing import balanced_cuts
from surfacelog.schemas.records import SeqRange

if TYPE_CHECKING:
    from collections.abc import Sequence


def compactable_range(
    seqs: Sequence[int], prices: Sequence[int], pairing_deltas: Sequence[int], retain_tokens: int
) -> SeqRange | None:
    """Return the span from the first node on that leaves a tail worth `retain_tokens`.

    `seqs`, `prices` and `pairing_deltas` are the nodes', in surface order. The last node always
    stays. The cut moves left until it parts no tool call from its result; None when it would
    have to leave nothing. Raises CorruptLogError for a result that answers no call.
    """
    kept = _first_kept(prices, retain_tokens)
    if kept == 0:
        return None
    cuts = balanced_cuts(pairing_deltas)
    while not cuts[kept]:
        kept -= 1
    return SeqRange(seqs[0], seqs[kept - 1]) if kept > 0 else None


def _first_kept(prices: Sequence[int], retain_tokens: int) -> int:
    """Return the position where the tail begins: as many nodes from the end as the budget asks."""
    tail = 0
    for position in range(len(prices) - 1, -1, -1):
        tail += prices[position]
        if tail >= retain_tokens:
            return position
    return 0
