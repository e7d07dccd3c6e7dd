"""`surfacelog compactions`: the conservation receipts of a session (DESIGN 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from surfacelog.processors.cli.output import JsonOption, print_json, print_table
from surfacelog.processors.cli.session_log import whole_log
from surfacelog.schemas.event_types import COMPACTION_RECEIPT
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

_FIGURES = ("trigger", "shadowedCount", "tokensBefore", "tokensAfter", "tailCount")


def compactions(
    session: Annotated[str, typer.Argument(help="The session's id.")],
    as_json: JsonOption = False,
) -> None:
    """List what every compaction shadowed, what it gained, and that the tail stayed as it was."""
    receipts = [event for event in whole_log(session) if event["type"] == COMPACTION_RECEIPT]
    if not as_json:
        columns = ("seq", "trigger", "shadowed", "before", "after", "tail", "unchanged", "by")
        print_table(columns, map(_row, receipts))
        return
    for event in receipts:
        place: JsonObject = {"session": session, "seq": event["seq"], "time": event["time"]}
        print_json({**place, "receipt": event["data"]})


def _row(event: JsonObject) -> tuple[JsonValue, ...]:
    data = event["data"]
    figures = (member(data, name) for name in _FIGURES)
    unchanged = member(data, "tailDigestBefore") == member(data, "tailDigestAfter")
    by = f"{member(data, 'provider')}/{member(data, 'model')}"
    return (event["seq"], *figures, "yes" if unchanged else "NO", by)
