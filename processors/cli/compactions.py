"""`surfacelog compactions`: what became of every compaction of a session (DESIGN 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from surfacelog.processors.cli.output import JsonOption, print_json, print_table
from surfacelog.processors.cli.session_log import whole_log
from surfacelog.schemas.event_types import COMPACTION_RECEIPT
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

COLUMNS: Final = (
    "seq",
    "outcome",
    "trigger",
    "shadowed",
    "before",
    "after",
    "tail",
    "unchanged",
    "by, or why not",
)
_FIGURES: Final = ("trigger", "shadowedCount", "tokensBefore", "tokensAfter", "tailCount")


def compactions(
    session: Annotated[str, typer.Argument(help="The session's id.")],
    as_json: JsonOption = False,
) -> None:
    """List what every compaction shadowed, what it gained, and that the tail stayed as it was.

    An attempt that failed is listed with its class, and why.
    """
    ended = [event for event in whole_log(session) if _is_receipt(event) or _is_failure(event)]
    if not as_json:
        print_table(COLUMNS, map(_row, ended))
        return
    for event in ended:
        place: JsonObject = {"session": session, "seq": event["seq"], "time": event["time"]}
        data, failed = event["data"], _is_failure(event)
        print_json(
            {**place, "receipt": None if failed else data, "failure": data if failed else None}
        )


def _is_receipt(event: JsonObject) -> bool:
    return event["type"] == COMPACTION_RECEIPT


def _is_failure(event: JsonObject) -> bool:
    return event["type"] == "compaction/end" and member(event["data"], "error") is not None


def _row(event: JsonObject) -> tuple[JsonValue, ...]:
    data = event["data"]
    if _is_failure(event):
        failure = f"failed ({member(data, 'errorClass') or 'no class'})"
        return (event["seq"], failure, *["-"] * (len(_FIGURES) + 1), member(data, "error"))
    figures = (member(data, name) for name in _FIGURES)
    unchanged = member(data, "tailDigestBefore") == member(data, "tailDigestAfter")
    by = f"{member(data, 'provider')}/{member(data, 'model')}"
    return (event["seq"], "landed", *figures, "yes" if unchanged else "NO", by)
