"""What a streamed response costs, from the lengths of its chunks alone (SEMANTICS 4).

The meter prices the blocks assembled from the chunks that an assistant/message cites. Texts add
up, so lengths suffice: a step of a thousand chunks is kept as a few lists of small numbers, and
goes with the rest of the meter into a projection's state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from surfacelog.projections.tokens import OVERHEAD, blocks_price, is_priceable, length_price
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_text import js_dumps, text_or_json
from surfacelog.schemas.json_value import member, text_member
from surfacelog.schemas.utf16 import utf16_length

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.schemas.json_value import JsonValue

_KINDS: Final = {
    "text-delta": "text",
    "reasoning-delta": "reasoning",
    "tool-call-delta": "tool-call",
}


@dataclass(slots=True)
class _Run:
    """Consecutive chunks that differ in length only.

    `place` and `index` are JSON texts. `what` is "delta", "start", "end" (a closed block, its
    price in `lengths`), "finish", "other" (a usage) or "unknown"; `name` the length of a tool
    call's name.
    """

    seq: int
    place: str
    what: str
    index: str
    kind: str
    name: int
    lengths: list[int]


@dataclass(slots=True)
class _Block:
    kind: str
    text: int = 0
    arguments: int = 0
    name: int = 0
    price: int | None = None


class StreamPrices:
    """The chunks of the open step. O(1) a chunk; O(chunks) where a price is asked for."""

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def clear(self) -> None:
        """Forget all chunks: their step has ended."""
        self._runs.clear()

    def add(self, seq: int, place: str, chunk: JsonValue) -> None:
        """Note the chunk at `seq`, which names `place` (turn and step as JSON text)."""
        run = _run_of(seq, place, chunk)
        last = self._runs[-1] if self._runs else None
        if last is not None and run.what == "delta" and _continues(last, run):
            last.lengths += run.lengths
        else:
            self._runs.append(run)

    def price(self, cited: Iterable[int], place: str) -> int:
        """Return the price of the message that the cited chunks make; 0 when they make none.

        Raises CorruptLogError when one is not a chunk of this step, or makes no block.
        """
        where = {
            run.seq + offset: (run, offset)
            for run in self._runs
            for offset in range(len(run.lengths))
        }
        blocks: dict[str, _Block] = {}
        cut_short = False
        for seq in cited:
            run, offset = where.get(seq, (None, 0))
            if run is None or run.place != place:
                raise CorruptLogError(f"cites seq {seq}, which is no chunk of its step")
            if run.what == "unknown":
                raise CorruptLogError(f"cites seq {seq}, a chunk of no known type")
            if run.what == "finish":
                cut_short = bool(run.lengths[0])
            elif run.what != "other":
                _feed(blocks, run, offset)
        kept = [b for b in blocks.values() if not (cut_short and b.kind == "tool-call")]
        return sum(map(_price, kept)) + OVERHEAD if kept else 0

    def to_json(self) -> JsonValue:
        """Return the runs as lists."""
        return [
            [run.seq, run.place, run.what, run.index, run.kind, run.name, list(run.lengths)]
            for run in self._runs
        ]

    @classmethod
    def from_json(cls, value: Any) -> StreamPrices:
        """Return what `to_json` was given."""
        prices = cls()
        prices._runs = [_Run(*fields) for fields in value]
        return prices


def _run_of(seq: int, place: str, chunk: JsonValue) -> _Run:
    kind = member(chunk, "type")
    index = _key(member(chunk, "index"))
    if isinstance(kind, str) and kind in _KINDS:
        text = text_member(chunk, "argumentsDelta" if kind == "tool-call-delta" else "text") or ""
        name = utf16_length(text_member(chunk, "name") or "")
        return _Run(seq, place, "delta", index, _KINDS[kind], name, [utf16_length(text)])
    if kind == "block-start":
        return _Run(seq, place, "start", index, text_or_json(member(chunk, "blockType")), 0, [0])
    if kind == "block-end":
        block = member(chunk, "block")
        # -1 marks a block that has no price; it is an error only where it is cited.
        price = blocks_price([block]) if is_priceable([block]) else -1
        return _Run(seq, place, "end", index, text_or_json(member(block, "type")), 0, [price])
    if kind == "finish":
        cut_short = member(member(chunk, "reason"), "kind") == "max-tokens"
        return _Run(seq, place, "finish", "", "", 0, [int(cut_short)])
    return _Run(seq, place, "other" if kind == "usage" else "unknown", "", "", 0, [0])


def _key(index: JsonValue) -> str:
    return str(index) if type(index) is int else js_dumps(index)


def _continues(last: _Run, run: _Run) -> bool:
    return last.seq + len(last.lengths) == run.seq and (
        last.place,
        last.what,
        last.index,
        last.kind,
        last.name,
    ) == (run.place, run.what, run.index, run.kind, run.name)


def _feed(blocks: dict[str, _Block], run: _Run, offset: int) -> None:
    block = blocks.setdefault(run.index, _Block(run.kind))
    if block.price is not None:
        return
    if run.what == "end":
        block.kind, block.price = run.kind, run.lengths[0]
    elif run.what == "delta" and run.kind == "tool-call":
        block.arguments += run.lengths[offset]
        block.name = run.name or block.name
    elif run.what == "delta":
        block.text += run.lengths[offset]


def _price(block: _Block) -> int:
    if block.price == -1 or (
        block.price is None and block.kind not in ("text", "reasoning", "tool-call")
    ):
        raise CorruptLogError(f"cites the stream of a {block.kind!r} block that has no price")
    if block.price is not None:
        return block.price
    if block.kind == "tool-call":
        return length_price(block.name) + length_price(block.arguments) + OVERHEAD
    return length_price(block.text) + OVERHEAD
