"""`surfacelog sessions`: which sessions there are, the last active first (DESIGN 12)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from surfacelog.processors.cli.find_settings import find_settings
from surfacelog.processors.cli.output import JsonOption, print_json, print_table
from surfacelog.projections.reader import SurfaceReader

if TYPE_CHECKING:
    from surfacelog.projections.reader import SessionEntry
    from surfacelog.schemas.settings import Settings


def sessions(
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """List sessions by their last activity."""
    entries = asyncio.run(_entries(find_settings(), limit))
    if not as_json:
        columns = ("session", "events", "generation", "tokens", "last activity", "status")
        print_table(columns, map(_row, entries))
        return
    for entry in entries:
        print_json(
            {
                "session": entry.session_id,
                "events": entry.events,
                "generation": entry.generation,
                "tokens": entry.tokens.to_json(),
                "last_activity": entry.last_activity,
                "status": entry.status,
            }
        )


async def _entries(settings: Settings, limit: int) -> list[SessionEntry]:
    async with await SurfaceReader.connect(settings) as reader:
        return await reader.sessions(limit)


def _row(entry: SessionEntry) -> tuple[object, ...]:
    seen = datetime.fromtimestamp(entry.last_activity / 1000, tz=UTC)
    return (
        entry.session_id,
        entry.events,
        entry.generation,
        entry.tokens.surface,
        seen.isoformat(timespec="seconds"),
        entry.status,
    )
