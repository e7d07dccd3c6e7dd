"""The surface rules of SEMANTICS 3 that need the nodes, for whoever keeps them in whatever form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.json_value import member
from surfacelog.schemas.surface_form import cited_seqs

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import SeqRange


def span_positions(nodes: Sequence[int], span: SeqRange) -> slice:
    """Return the positions of a span of node seqs.

    Raises AdmissionError `surface.span` when an end is not there, or they are in the wrong order.
    """
    first, last = _position(nodes, span.start), _position(nodes, span.end)
    if first > last:
        raise AdmissionError(
            "surface.span", f"node {span.start} stands after {span.end}: name the first one first"
        )
    return slice(first, last + 1)


def check_citations(event: JsonObject, seq: int, shadowed: Collection[int]) -> None:
    """Refuse citations that are no seqs, not earlier than `seq`, or lack a shadowed node.

    Raises AdmissionError `surface.sources`.
    """
    cited = cited_seqs(event)
    if cited and max(cited) >= seq:
        raise AdmissionError(
            "surface.sources", f"seq {seq} cites {max(cited)}: only earlier events can be cited"
        )
    missing = [node for node in shadowed if node not in cited]
    if missing:
        raise AdmissionError(
            "surface.sources", f"the replacement shadows {missing} without citing them: cite all"
        )


def fixed_part(data: JsonValue) -> JsonValue:
    """Return a tool/result's data without its block's content, which alone may change.

    Raises AdmissionError `surface.tool_result` for data of another shape.
    """
    message = member(data, "message")
    content = member(message, "content")
    if not isinstance(data, dict) or not isinstance(message, dict) or not isinstance(content, list):
        raise AdmissionError("surface.tool_result", "a tool/result without a message's content")
    block = content[0] if content and isinstance(content[0], dict) else {}
    return [_without(data, "message"), _without(message, "content"), _without(block, "content")]


def _position(nodes: Sequence[int], seq: int) -> int:
    try:
        return nodes.index(seq)
    except ValueError:
        raise AdmissionError(
            "surface.span", f"{seq} is no node of the surface now: read it again, choose anew"
        ) from None


def _without(value: JsonObject, key: str) -> JsonObject:
    return {name: item for name, item in value.items() if name != key}
