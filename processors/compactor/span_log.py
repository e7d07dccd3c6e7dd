"""What a compaction reads from the log beside the Surface."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from surfacelog.projections.span_facts import span_facts
from surfacelog.schemas.errors import NotFoundError
from surfacelog.schemas.json_value import text_member
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

    async def holds(self, session_id: str) -> bool:
        """Tell whether the log has the session, whatever its projection says."""
        return await asyncio.to_thread(self._holds, session_id)

    async def compaction_end(
        self, session_id: str, compaction_id: str, start_seq: int
    ) -> JsonValue:
        """Return the data of a compaction's end; None while it has none, or was made stale."""
        return await asyncio.to_thread(self._compaction_end, session_id, compaction_id, start_seq)

    def _holds(self, session_id: str) -> bool:
        try:
            self._reader.end_seq(session_id)
        except NotFoundError:
            return False
        return True

    def _compaction_end(self, session_id: str, compaction_id: str, start_seq: int) -> JsonValue:
        for item in self._items(session_id, start_seq, None):
            named = text_member(item["data"], "compactionId")
            if item["type"] == "compaction/end" and named == compaction_id:
                return item["data"]
        return None

    def _data(self, session_id: str, seq: int) -> JsonValue:
        try:
            return next(self._reader.events(session_id, seq, seq))["data"]
        except NotFoundError:
            return None

    def _items(self, session_id: str, first: int, last: int | None) -> Iterator[JsonObject]:
        for _, batch in self._reader.batches(session_id, first, last):
            yield from (item for item in batch.items if not isinstance(item, ChunkRun))
