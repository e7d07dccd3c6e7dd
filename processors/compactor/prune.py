"""The pruner as a step of the worker: long tool results lose their middle (DESIGN 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.processors.compactor.accounts import surface_nodes
from surfacelog.processors.compactor.appends import SessionAppends
from surfacelog.projections.pruner import PrunePolicy, prune_results, text_length
from surfacelog.schemas.clock import now_ms
from surfacelog.schemas.failpoints import failpoint
from surfacelog.schemas.json_value import list_member, object_member

if TYPE_CHECKING:
    from surfacelog.processors.compactor.one_compaction import Tools
    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.schemas.json_value import JsonObject


async def prune(cut: SurfaceCut, tools: Tools) -> SurfaceCut:
    """Prune every long tool result of the cut; return the Surface afterwards, or the same cut.

    Each result is one append of its own, compaction/prune and the replacement, at the generation
    that the one before it left: whoever changes the Surface in between stops the rest, which
    raises CompactionFailedError `changed`.
    """
    policy = PrunePolicy()
    results = [
        (seq, await _event(cut.session_id, seq, tools))
        for seq, message in surface_nodes(cut)
        if message is not None and _is_long(message, policy)
    ]
    pruned = prune_results(results, policy, now_ms())
    if not pruned:
        return cut
    last = cut.as_of_seq
    with SessionAppends(tools.sender, cut.session_id) as appends:
        for generation, one in enumerate(pruned, start=cut.generation):
            events = [one.price_event, one.replacement]
            last = await appends.append(events, generation=generation) + 1
            failpoint("compactor-pruned")
    return await tools.surface_at(cut.session_id, last)


async def _event(session_id: str, seq: int, tools: Tools) -> JsonObject:
    """Return the whole event: its replacement repeats more than the message."""
    return {"type": "tool/result", "data": await tools.log.data(session_id, seq)}


def _is_long(message: JsonObject, policy: PrunePolicy) -> bool:
    if object_member(message, "source").get("kind") != "tool":
        return False
    blocks = list_member(message, "content")
    return sum(text_length(list_member(block, "content")) for block in blocks) > policy.threshold
