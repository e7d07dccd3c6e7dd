"""The Surface as the sequencer keeps it: what its rules need of each node, not the messages.

The rules are SEMANTICS 3 (surface rules 4 to 6) and, for live writers, that every surface can be
cut again (DESIGN 4: live pairing).
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from surfacelog.projections.messages import derived_message
from surfacelog.projections.pairing import is_balanced, pairing_delta
from surfacelog.projections.snapshot_columns import (
    DIGEST_BYTES,
    differences,
    pack_digests,
    unpack_digests,
)
from surfacelog.projections.surface_rules import check_citations, fixed_part, span_positions
from surfacelog.projections.tokens import message_price
from surfacelog.schemas.errors import AdmissionError, CorruptLogError
from surfacelog.schemas.json_digest import json_digest
from surfacelog.schemas.surface_form import replaced_range

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import SeqRange

KINDS: Final = ("user/message", "assistant/message", "tool/result")


class Node(NamedTuple):
    """One node. `delta` is what it adds to the count of unanswered tool calls (SEMANTICS 5).

    `price` is the message's, in tokens (SEMANTICS 4). `identity` of a tool/result digests all
    of its data but the block's `content`, the only thing that a replacement may change; it is
    empty for the other kinds.
    """

    seq: int
    kind: str
    price: int
    delta: int
    identity: bytes


class SurfaceNodes:
    """The ordered nodes and the generation, which counts replacements."""

    __slots__ = ("generation", "nodes")

    def __init__(self, nodes: list[Node] | None = None, generation: int = 0) -> None:
        self.nodes: list[Node] = [] if nodes is None else nodes
        self.generation = generation

    def copy(self) -> SurfaceNodes:
        """Return an independent copy."""
        return SurfaceNodes(self.nodes.copy(), self.generation)

    def to_json(self) -> JsonValue:
        """Return a compact form for snapshots: one column for each field of the nodes."""
        return [
            self.generation,
            differences(node.seq for node in self.nodes),
            "".join(str(KINDS.index(node.kind)) for node in self.nodes),
            [node.price for node in self.nodes],
            [node.delta for node in self.nodes],
            pack_digests(node.identity for node in self.nodes),
        ]

    @classmethod
    def from_json(cls, value: Any) -> SurfaceNodes:
        """Return what `to_json` was given."""
        generation, seqs, kinds, prices, deltas, digests = value
        identities = iter(unpack_digests(digests))
        nodes = [
            Node(seq, kind, price, delta, next(identities) if kind == "tool/result" else b"")
            for seq, kind, price, delta in zip(
                accumulate(seqs), (KINDS[int(k)] for k in kinds), prices, deltas, strict=True
            )
        ]
        return cls(nodes, generation)

    def seqs(self) -> list[int]:
        """Return the node seqs in surface order."""
        return [node.seq for node in self.nodes]

    def shadowed(self, span: SeqRange) -> list[Node]:
        """Return the nodes of a span; raises AdmissionError `surface.span` when it is not there."""
        return self.nodes[span_positions(self.seqs(), span)]

    def check(self, event: JsonObject, seq: int) -> None:
        """Raise AdmissionError `surface.*` for an event that cannot stand at `seq`.

        Its own citations are resolved.
        """
        span = replaced_range(event)
        if span is not None:
            shadowed = self.shadowed(span)
            check_citations(event, seq, [node.seq for node in shadowed])
            if event["type"] == "tool/result":
                _check_tool_result(event, shadowed)
        elif "sourceEventSeqs" in event:
            check_citations(event, seq, ())

    def check_cut(self, event: JsonObject) -> None:
        """Raise AdmissionError `pairing` for a replacement that parts calls from their results.

        A tool/result may take the place of one (DESIGN 4: live pairing).
        """
        span = replaced_range(event)
        if span is None or event["type"] == "tool/result":
            return
        if pairing_delta(event) or not self._is_balanced(span_positions(self.seqs(), span)):
            raise AdmissionError(
                "pairing",
                "the replacement parts tool calls from their results: choose a span with no open"
                " call before or after it, and bring no tool-call blocks",
            )

    def _is_balanced(self, positions: slice) -> bool:
        deltas = [node.delta for node in self.nodes]
        try:
            return is_balanced(deltas, positions.start, positions.stop - 1)
        except CorruptLogError:
            # Imported history may hold a result without its call: no cut is safe then.
            return False

    def advance(self, event: JsonObject, seq: int) -> None:
        """Fold one admitted surface event."""
        node = _node(event, seq)
        span = replaced_range(event)
        if span is None:
            self.nodes.append(node)
        else:
            self.nodes[span_positions(self.seqs(), span)] = [node]
            self.generation += 1


def _check_tool_result(event: JsonObject, shadowed: list[Node]) -> None:
    if len(shadowed) != 1 or shadowed[0].kind != "tool/result":
        raise AdmissionError(
            "surface.tool_result",
            "a tool/result takes the place of exactly one tool/result: replace that one alone",
        )
    if shadowed[0].identity != _identity(event):
        raise AdmissionError(
            "surface.tool_result",
            f"the replacement of {shadowed[0].seq} changes more than its block's content: keep"
            " everything else as it was",
        )


def _node(event: JsonObject, seq: int) -> Node:
    kind = str(event["type"])
    identity = _identity(event) if kind == "tool/result" else b""
    price = message_price(derived_message(event))
    return Node(seq, kind, price, pairing_delta(event), identity)


def _identity(event: JsonObject) -> bytes:
    return json_digest(fixed_part(event["data"]), DIGEST_BYTES)
