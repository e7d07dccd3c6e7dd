"""Chunk runs: plain delta chunks as columns, and back (DESIGN 3).

A delta chunk is plain when its envelope and data have exactly the members, in exactly the order,
that every writer gives them; only then is a run lossless.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

from surfacelog.schemas.citations import resolve_citations
from surfacelog.schemas.json_value import text_member
from surfacelog.schemas.records import ChunkKind, ChunkRun, Item

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from surfacelog.schemas.json_value import JsonObject, JsonValue

_KINDS: Final[dict[str, ChunkKind]] = {
    "text-delta": "text",
    "reasoning-delta": "reasoning",
    "tool-call-delta": "tool-call",
}
_CHUNK_TYPES: Final = {kind: chunk_type for chunk_type, kind in _KINDS.items()}
_ENVELOPE_KEYS: Final = ["type", "time", "data"]
_DATA_KEYS: Final = ["turn", "step", "chunk"]
_TEXT_KEYS: Final = ["type", "index", "text"]
_CALL_KEYS: Final = (
    ["type", "index", "id", "name", "argumentsDelta"],
    ["type", "index", "id", "argumentsDelta"],
)
# Half of a 64-bit number, so that the difference of two times fits one too.
_TIME_LIMIT: Final = 1 << 62


def check_run(run: ChunkRun) -> None:
    """ValueError when the columns of a run do not belong together."""
    if not run.deltas or len(run.dt) != len(run.deltas) - 1:
        raise ValueError("a chunk run whose columns differ in length")
    if run.kind not in _CHUNK_TYPES:
        raise ValueError(f"a chunk run of kind {run.kind[:40]!r}")
    if (run.call_id is None) != (run.kind != "tool-call"):
        raise ValueError("a chunk run needs a call id exactly when it is of a tool call")
    if run.name is not None and run.call_id is None:
        raise ValueError("a chunk run with a name but without a call")


def pack_items(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return events without their seq, neighbouring plain delta chunks as runs of n >= 1.

    Runs that are given stay as they are.
    """
    packed: list[Item] = []
    deltas: list[_Delta] = []
    for item in items:
        delta = None if isinstance(item, ChunkRun) else _plain_delta(item)
        if deltas and (delta is None or delta.place != deltas[0].place):
            packed.append(_run(deltas))
            deltas = []
        if delta is not None:
            deltas.append(delta)
        else:
            packed.append(item if isinstance(item, ChunkRun) else _without_seq(item))
    if deltas:
        packed.append(_run(deltas))
    return tuple(packed)


def unpack_items(items: Iterable[Item], first_seq: int) -> Iterator[JsonObject]:
    """Yield the events with their seqs, runs unpacked, citations of the same append resolved."""
    seq = first_seq
    for item in items:
        if isinstance(item, ChunkRun):
            for event in run_events(item):
                yield _with_seq(event, seq)
                seq += 1
        else:
            yield _with_seq(resolve_citations(item, first_seq), seq)
            seq += 1


def run_events(run: ChunkRun) -> Iterator[JsonObject]:
    """Yield the events, without seq, that a run stands for."""
    time = run.time
    for place, text in enumerate(run.deltas):
        time += run.dt[place - 1] if place else 0
        chunk: JsonObject = {"type": _CHUNK_TYPES[run.kind], "index": run.index}
        if run.call_id is None:
            chunk["text"] = text
        else:
            chunk["id"] = run.call_id
            if run.name is not None:
                chunk["name"] = run.name
            chunk["argumentsDelta"] = text
        data: JsonObject = {"turn": run.turn, "step": run.step, "chunk": chunk}
        yield {"type": "assistant/chunk", "time": time, "data": data}


class _Place(NamedTuple):
    """What all chunks of a run have in common."""

    turn: int
    step: int
    block: int
    kind: ChunkKind
    call_id: str | None
    name: str | None


class _Delta(NamedTuple):
    place: _Place
    time: int
    text: str


def _run(deltas: list[_Delta]) -> ChunkRun:
    place = deltas[0].place
    return ChunkRun(
        time=deltas[0].time,
        turn=place.turn,
        step=place.step,
        index=place.block,
        kind=place.kind,
        dt=tuple(after.time - before.time for before, after in pairwise(deltas)),
        deltas=tuple(delta.text for delta in deltas),
        call_id=place.call_id,
        name=place.name,
    )


def _plain_delta(event: JsonObject) -> _Delta | None:
    if event.get("type") != "assistant/chunk":
        return None
    data, time = event.get("data"), event.get("time")
    if [key for key in event if key != "seq"] != _ENVELOPE_KEYS or not isinstance(data, dict):
        return None
    chunk, turn, step = data.get("chunk"), data.get("turn"), data.get("step")
    if list(data) != _DATA_KEYS or not isinstance(chunk, dict):
        return None
    kind, index = _KINDS.get(text_member(chunk, "type") or ""), chunk.get("index")
    texts = _texts(chunk, kind)
    if kind is None or texts is None:
        return None
    if not (_fits(time) and _fits(turn) and _fits(step) and _fits(index)):
        return None
    return _Delta(_Place(turn, step, index, kind, texts[0], texts[1]), time, texts[2])


def _texts(chunk: JsonObject, kind: ChunkKind | None) -> tuple[str | None, str | None, str] | None:
    """Return call id, name and text of a delta whose members are exactly the plain ones."""
    call_id, name, text = chunk.get("id"), chunk.get("name"), chunk.get("text")
    if kind == "tool-call":
        text = chunk.get("argumentsDelta")
        named = "name" in chunk
        if list(chunk) != _CALL_KEYS[not named] or isinstance(name, str) != named:
            return None
        if not isinstance(call_id, str) or not isinstance(text, str):
            return None
        return call_id, name if isinstance(name, str) else None, text
    if list(chunk) != _TEXT_KEYS or not isinstance(text, str):
        return None
    return None, None, text


def _fits(value: JsonValue) -> TypeGuard[int]:
    return type(value) is int and -_TIME_LIMIT < value < _TIME_LIMIT


def _without_seq(event: JsonObject) -> JsonObject:
    return {key: value for key, value in event.items() if key != "seq"}


def _with_seq(event: JsonObject, seq: int) -> JsonObject:
    numbered: JsonObject = {}
    for key, value in event.items():
        numbered[key] = value
        if key == "type":
            numbered["seq"] = seq
    numbered["seq"] = seq
    return numbered
