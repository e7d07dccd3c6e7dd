"""The packed index of a session's appends in the log: pairs (first_seq, offset), one an append.

Kept in Redis under the letter `x`, so that a range of a session can be read from the log without
a scan of its partition (DESIGN 6). Entries are in the order of the log. An index that begins
after seq 0 was lost once and knows only the later appends.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Final

_ENTRY: Final = struct.Struct(">QQ")
ENTRY_BYTES: Final = _ENTRY.size


def index_entry(first_seq: int, offset: int) -> bytes:
    """Return the 16 bytes of one append: first seq and Kafka offset, both big-endian."""
    return _ENTRY.pack(first_seq, offset)


def offset_before(index: bytes, seq: int) -> int | None:
    """Return the offset of the last indexed append that begins at or before `seq`.

    None when the index does not reach back that far: scan the partition instead.
    """
    entries = range(len(index) // ENTRY_BYTES)
    place = bisect_right(entries, seq, key=lambda i: _ENTRY.unpack_from(index, i * ENTRY_BYTES)[0])
    if place == 0:
        return None
    offset: int = _ENTRY.unpack_from(index, (place - 1) * ENTRY_BYTES)[1]
    return offset
