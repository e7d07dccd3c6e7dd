"""The log of a session as commands read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.processors.cli.find_settings import find_settings
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject


def whole_log(session: str) -> list[JsonObject]:
    """Return all events of a session, by seq; raises what `LogReader.events` raises."""
    settings = find_settings()
    reader = LogReader(settings, connect_codec(settings), SessionIndex(settings))
    return list(reader.events(session))
