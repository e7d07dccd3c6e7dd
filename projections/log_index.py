"""The packed index of a session's appends in the log: pairs (first_seq, offset), one an append.

Kept in Redis under the letter `x`, so that a range of a session can be read from the log without
a scan of its partition (DESIGN 6). Entries are in the order of the log. An index that begins
after seq 0 was lost once and knows only the later appends.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from typing import Final

_ENTRY: Final = struct.Struct(">QQ")
ENTRY_BYTES: Final = _ENTRY.size


def index_entry(first_seq: int, offset: int) -> bytes:
    """Return the 16 bytes of one append: first seq and Kafka offset, both big-endian."""
    return _ENTRY.pack(first_seq, offset)


def offset_before(index: bytes, seq: int) -> int | None:
    """Return the offset from which every append that stands at `seq` or holds it is read.

    That is the first append that begins at `seq` (an open without events shares its first_seq
    with the append behind it), else the last one that begins before it. None when the index does
    not reach back that far: scan the partition instead.
    """
    entries = range(len(index) // ENTRY_BYTES)
    place = bisect_left(entries, seq, key=lambda i: _entry(index, i)[0])
    if place == len(entries) or _entry(index, place)[0] > seq:
        place -= 1
    return None if place < 0 else _entry(index, place)[1]


def _entry(index: bytes, place: int) -> tuple[int, int]:
    first_seq, offset = _ENTRY.unpack_from(index, place * ENTRY_BYTES)
    return first_seq, offset
