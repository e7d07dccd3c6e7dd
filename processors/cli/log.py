"""`surfacelog log`: the events of a session from the log (DESIGN 12)."""

from __future__ import annotations

from typing import Annotated

import typer

from surfacelog.processors.cli.find_settings import find_settings
from surfacelog.processors.cli.output import JsonOption, print_line
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.schemas.json_text import dumps
from surfacelog.schemas.registry import connect_codec


def log(
    session: Annotated[str, typer.Argument(help="The session's id.")],
    first: Annotated[int, typer.Option("--from", min=0, help="First seq.")] = 0,
    last: Annotated[int | None, typer.Option("--to", min=0, help="Last seq, inclusive.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Print events, one a line as JSON, chunk runs unpacked (--json is the same)."""
    del as_json  # an event is JSON either way
    settings = find_settings()
    reader = LogReader(settings, connect_codec(settings), SessionIndex(settings))
    for event in reader.events(session, first, last):
        print_line(dumps(event))
