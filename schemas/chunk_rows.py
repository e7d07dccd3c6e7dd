"""Packed chunk rows of the JSONL format (SEMANTICS 9).

A run of delta chunks that differ only in time and text is one row:
`{type: text-chunks | reasoning-chunks | tool-call-chunks, seq0, time0, data{turn, step, index,
dt[n-1], texts[n] | id, name?, args[n]}}`. What is not exactly such a chunk stays as it is.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_value import is_count, is_number, is_safe_integer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from surfacelog.schemas.json_value import JsonObject, JsonValue

MIN_RUN: Final = 3
"""Shorter runs are not packed: a row would be as long as its events. Readers take any length."""

_ROW_TYPES: Final = {
    "text-delta": "text-chunks",
    "reasoning-delta": "reasoning-chunks",
    "tool-call-delta": "tool-call-chunks",
}
_DELTA_TYPES: Final = {row: delta for delta, row in _ROW_TYPES.items()}
# What a plain chunk holds, in the order in which `unpack_row` gives it back.
_EVENT_MEMBERS: Final = ["type", "seq", "time", "data"]
_DATA_MEMBERS: Final = ["turn", "step", "chunk"]
_CHUNK_MEMBERS: Final = {
    "text-delta": [["type", "index", "text"]],
    "reasoning-delta": [["type", "index", "text"]],
    "tool-call-delta": [
        ["type", "index", "id", "argumentsDelta"],
        ["type", "index", "id", "name", "argumentsDelta"],
    ],
}
_ROW_MEMBERS: Final = {"type", "seq0", "time0", "data"}
_PLACE: Final = ("turn", "step", "index")


class _Delta(NamedTuple):
    """One plain delta chunk; `key` is what all chunks of a run have in common."""

    seq: int
    time: int
    text: str
    key: tuple[str, ...]
    common: JsonObject


def pack_rows(events: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the events with every run of at least `MIN_RUN` chunks as one row."""
    run: list[_Delta] = []
    held: list[JsonObject] = []
    for event in events:
        delta = _plain_delta(event)
        if delta is None or (run and not _follows(run[-1], delta)):
            yield from _flush(run, held)
            run, held = [], []
        if delta is None:
            yield event
        else:
            run.append(delta)
            held.append(event)
    yield from _flush(run, held)


def unpack_row(record: JsonValue) -> list[JsonValue]:
    """Return the events of one JSONL record: a row's chunks, or the record itself.

    Raises CorruptLogError for a row that is not exactly of its form.
    """
    tag = record.get("type") if isinstance(record, dict) else None
    if not isinstance(record, dict) or not isinstance(tag, str) or tag not in _DELTA_TYPES:
        return [record]
    data = record.get("data")
    if record.keys() != _ROW_MEMBERS or not isinstance(data, dict):
        raise CorruptLogError(f"a {tag} row has the members type, seq0, time0 and data")
    texts = _row_texts(tag, data)
    times = _row_times(record, data, len(texts))
    seq = record["seq0"]
    if not is_count(seq) or not is_safe_integer(seq + len(texts) - 1):  # type: ignore[operator]
        raise CorruptLogError(f"a {tag} row's seq0 is a seq, and so is its last one")
    return [
        {
            "type": "assistant/chunk",
            "seq": seq + offset,  # type: ignore[operator]  # a count: just checked
            "time": time,
            "data": {"turn": data["turn"], "step": data["step"], "chunk": _chunk(tag, data, text)},
        }
        for offset, (time, text) in enumerate(zip(times, texts, strict=True))
    ]


def _plain_delta(event: JsonObject) -> _Delta | None:
    """Return an event as a run's member, None when it has anything that a row cannot carry.

    The order of its members and a time that is spelled 1.0 are such things too.
    """
    data = event.get("data")
    if event.get("type") != "assistant/chunk" or list(event) != _EVENT_MEMBERS:
        return None
    if not isinstance(data, dict) or list(data) != _DATA_MEMBERS:
        return None
    chunk, seq, time = data["chunk"], event["seq"], event["time"]
    if not isinstance(chunk, dict) or not (is_count(seq) and is_safe_integer(time)):
        return None
    kind = chunk.get("type")
    if not isinstance(kind, str) or list(chunk) not in _CHUNK_MEMBERS.get(kind, ()):
        return None
    *names, text_name = list(chunk)
    common = {"turn": data["turn"], "step": data["step"]} | {
        name: chunk[name] for name in names if name != "type"
    }
    text = chunk[text_name]
    if not (isinstance(text, str) and type(seq) is int and type(time) is int):
        return None
    if not _is_common(common):
        return None
    key = (kind, *(repr((name, common[name])) for name in sorted(common)))
    return _Delta(seq, time, text, key, common)


def _is_common(common: JsonObject) -> bool:
    """Whether what a chunk holds beside its text is of the types that a row can carry."""
    return all(map(is_number, map(common.get, _PLACE))) and all(
        isinstance(common[name], str) for name in common.keys() - set(_PLACE)
    )


def _follows(last: _Delta, delta: _Delta) -> bool:
    return (
        last.key == delta.key
        and delta.seq == last.seq + 1
        and is_safe_integer(delta.time - last.time)
    )


def _flush(run: list[_Delta], held: list[JsonObject]) -> Iterator[JsonObject]:
    if len(run) < MIN_RUN:
        yield from held
        return
    first = run[0]
    data: JsonObject = {name: first.common[name] for name in _PLACE}
    gaps: list[JsonValue] = [b.time - a.time for a, b in pairwise(run)]
    texts: list[JsonValue] = [delta.text for delta in run]
    tag = _ROW_TYPES[first.key[0]]
    if tag == "tool-call-chunks":
        data |= {name: first.common[name] for name in ("id", "name") if name in first.common}
    data["dt"] = gaps
    data["args" if tag == "tool-call-chunks" else "texts"] = texts
    yield {"type": tag, "seq0": first.seq, "time0": first.time, "data": data}


def _row_texts(tag: str, data: JsonObject) -> list[str]:
    names = {"turn", "step", "index", "dt"}
    names |= {"id", "args"} if tag == "tool-call-chunks" else {"texts"}
    if tag == "tool-call-chunks" and "name" in data:
        names.add("name")
    if data.keys() != names or not all(is_number(data[name]) for name in _PLACE):
        raise CorruptLogError(f"a {tag} row's data has exactly {sorted(names)}")
    if not all(isinstance(data[name], str) for name in names & {"id", "name"}):
        raise CorruptLogError(f"a {tag} row's id and name are strings")
    texts = data["args" if tag == "tool-call-chunks" else "texts"]
    if not isinstance(texts, list) or not texts:
        raise CorruptLogError(f"a {tag} row has at least one text")
    strings = [text for text in texts if isinstance(text, str)]
    if len(strings) != len(texts):
        raise CorruptLogError(f"a {tag} row's texts are strings")
    return strings


def _row_times(record: JsonObject, data: JsonObject, count: int) -> list[int]:
    """Add the gaps up; a time that no reader holds exactly is corruption, not rounding."""
    gaps = data["dt"]
    if not isinstance(gaps, list) or len(gaps) != count - 1:
        raise CorruptLogError(f"{count} chunks have {count - 1} gaps between them")
    steps = [record["time0"], *gaps]
    if not all(map(is_safe_integer, steps)):
        raise CorruptLogError("a row's times are integers, in ms")
    times: list[int] = []
    for step in steps:
        times.append((times[-1] if times else 0) + int(step))  # type: ignore[arg-type]  # checked
        if not is_safe_integer(times[-1]):
            raise CorruptLogError("a row's times leave the range of exact integers")
    return times


def _chunk(tag: str, data: JsonObject, text: str) -> JsonObject:
    chunk: JsonObject = {"type": _DELTA_TYPES[tag], "index": data["index"]}
    if tag != "tool-call-chunks":
        chunk["text"] = text
        return chunk
    chunk["id"] = data["id"]
    if "name" in data:
        chunk["name"] = data["name"]
    chunk["argumentsDelta"] = text
    return chunk
