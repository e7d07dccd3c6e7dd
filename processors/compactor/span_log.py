"""What a compaction reads from the log beside the Surface."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from surfacelog.projections.span_facts import span_facts
from surfacelog.schemas.errors import NotFoundError
from surfacelog.schemas.records import ChunkRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfacelog.projections.log_reader import LogReader
    from surfacelog.projections.span_facts import SpanFacts
    from surfacelog.schemas.json_value import JsonObject, JsonValue


class SpanLog:
    """Reads in a thread of its own: the log reader blocks."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader

    async def facts(self, session_id: str, first: int, last: int) -> SpanFacts:
        """Fold the events from `first` to `last`; raises what `LogReader.batches` raises."""
        return await asyncio.to_thread(lambda: span_facts(self._items(session_id, first, last)))

    async def data(self, session_id: str, seq: int) -> JsonValue:
        """Return the data of one event, None when the log ends before it."""
        return await asyncio.to_thread(self._data, session_id, seq)

    def _data(self, session_id: str, seq: int) -> JsonValue:
        try:
            return next(self._reader.events(session_id, seq, seq))["data"]
        except NotFoundError:
            return None

    def _items(self, session_id: str, first: int, last: int) -> Iterator[JsonObject]:
        for _, batch in self._reader.batches(session_id, first, last):
            yield from (item for item in batch.items if not isinstance(item, ChunkRun))
