"""Chunk runs as Avro bytes: written, and read without cutting their texts apart.

Chunk runs carry nearly the whole traffic of the bus, and who admits one reads none of its texts.
So the column is checked as a whole and cut only when somebody asks. Strict like `avro_binary`, so
that accepted bytes may be passed on as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast, overload

from surfacelog.schemas.avro_binary import (
    read_long,
    read_longs,
    read_size,
    read_text,
    read_texts,
    write_long,
    write_longs,
    write_text,
    write_texts,
)
from surfacelog.schemas.chunk_runs import check_run
from surfacelog.schemas.records import ChunkKind, ChunkRun

RUN_FIELDS: Final = ("time", "turn", "step", "index", "kind", "call_id", "name", "dt", "deltas")
"""The fields of a chunk run in the order of its schema, which never changes."""

_BEYOND: Final = 1 << 62
# From the length of a text to that of the next, by its one byte. What is no such byte (a longer
# length, a negative one) leads beyond any buffer.
_TO_NEXT: Final = tuple(
    _BEYOND if code & 1 or code > 127 else 1 + (code >> 1) for code in range(256)
)


class PackedTexts(Sequence[str]):
    """Texts as they travel, each behind its length in one byte: known to be sound, not yet cut."""

    __slots__ = ("_column", "_count", "_texts")

    def __init__(self, column: bytes, count: int) -> None:
        self._column = column
        self._count = count
        self._texts: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[str, ...]: ...
    def __getitem__(self, place: int | slice) -> str | tuple[str, ...]:
        return self._cut()[place]

    def __eq__(self, other: object) -> bool:
        return self._cut() == (other._cut() if isinstance(other, PackedTexts) else other)

    def __hash__(self) -> int:
        return hash(self._cut())

    def __repr__(self) -> str:
        return repr(self._cut())

    def _cut(self) -> tuple[str, ...]:
        if self._texts is None:
            column, at = self._column, 0
            texts = []
            for _ in range(self._count):
                following = at + _TO_NEXT[column[at]]
                texts.append(column[at + 1 : following].decode())
                at = following
            self._texts = tuple(texts)
        return self._texts


def read_run(buffer: bytes, at: int) -> tuple[ChunkRun, int]:
    """Read a chunk run. ValueError or IndexError when the bytes are not one."""
    time, at = read_long(buffer, at)
    turn, at = read_long(buffer, at)
    step, at = read_long(buffer, at)
    index, at = read_long(buffer, at)
    spelled, at = read_text(buffer, at)
    call_id, at = _read_optional_text(buffer, at)
    name, at = _read_optional_text(buffer, at)
    dt, at = read_longs(buffer, at)
    deltas, at = _read_deltas(buffer, at)
    kind = cast("ChunkKind", spelled)  # check_run looks
    run = ChunkRun(time, turn, step, index, kind, tuple(dt), deltas, call_id, name)
    check_run(run)
    return run, at


def write_run(run: ChunkRun, out: bytearray) -> None:
    """Write a chunk run. OverflowError for a number that takes more than 64 bits."""
    for number in (run.time, run.turn, run.step, run.index):
        write_long(number, out)
    write_text(run.kind, out)
    for text in (run.call_id, run.name):
        out.append(0 if text is None else 2)
        if text is not None:
            write_text(text, out)
    write_longs(run.dt, out)
    write_texts(run.deltas, out)


def _read_optional_text(buffer: bytes, at: int) -> tuple[str | None, int]:
    branch = buffer[at]
    if branch == 0:
        return None, at + 1
    if branch != 2:
        raise ValueError("no such branch of a union")
    return read_text(buffer, at + 1)


def _read_deltas(buffer: bytes, at: int) -> tuple[Sequence[str], int]:
    count, start = read_size(buffer, at)
    end = start
    try:
        for _ in range(count):
            end += _TO_NEXT[buffer[end]]
        ends_here = count > 0 and buffer[end] == 0
    except IndexError:
        ends_here = False
    if not ends_here:  # long texts, several blocks, or no texts at all
        texts, at = read_texts(buffer, at)
        return tuple(texts), at
    column = buffer[start:end]
    # The lengths are ASCII: where the column as a whole is UTF-8, so is each text between them.
    column.decode()
    return PackedTexts(column, count), end + 1
