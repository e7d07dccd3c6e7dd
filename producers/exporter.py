"""Exporting sessions as JSONL, as SEMANTICS 9 has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.jsonl import event_lines, header_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfacelog.projections.log_reader import LogReader
    from surfacelog.schemas.json_value import JsonObject


def export_session(reader: LogReader, session_id: str, *, packed: bool = False) -> Iterator[str]:
    """Give the lines of a session's file, newline included: its header, then its events.

    `packed` writes runs of chunks as rows. Raises NotFoundError and what the reader raises.
    """
    yield header_line(_session_header(reader, session_id))
    yield from event_lines(reader.events(session_id), packed=packed)


def _session_header(reader: LogReader, session_id: str) -> JsonObject:
    _, first = next(reader.batches(session_id))
    # Only an open makes a session, and a read of the whole log begins with it.
    if first.opened is None:
        raise CorruptLogError(f"{session_id} does not begin with an open", session=session_id)
    return first.opened.header
