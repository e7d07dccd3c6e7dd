"""Cutting what was fetched into transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfacelog.processors.sequencer.record import Record


def in_chunks(records: list[Record], limit: int) -> Iterator[list[Record]]:
    """Yield the records in order, in lists of at most `limit` bytes; a larger one stands alone.

    A transaction must be committed long before its timeout, however large its requests are.
    """
    chunk: list[Record] = []
    size = 0
    for record in records:
        length = len(record)
        if chunk and size + length > limit:
            yield chunk
            chunk, size = [], 0
        chunk.append(record)
        size += length
    if chunk:
        yield chunk
