"""`surfacelog recall`: search what compaction has taken off the Surface (SEMANTICS 10)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from surfacelog.processors.cli.output import JsonOption, print_json, print_table
from surfacelog.processors.cli.session_log import whole_log
from surfacelog.projections.recall import Recalled, recall

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject


def recall_shadowed(
    session: Annotated[str, typer.Argument(help="The session's id.")],
    pattern: Annotated[str, typer.Argument(help="A regular expression; case is ignored.")],
    as_json: JsonOption = False,
) -> None:
    """Search the messages that the model no longer sees, and say where in the log they are."""
    try:
        compiled = re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise typer.BadParameter(f"not a regular expression: {error}") from error
    found = recall(whole_log(session), compiled)
    if as_json:
        for one in found:
            print_json(_described(session, one))
        return
    rows = ((one.seq, one.event["type"], line) for one in found for line in one.lines)
    print_table(("seq", "type", "line"), rows)


def _described(session: str, one: Recalled) -> JsonObject:
    return {
        "session": session,
        "seq": one.seq,
        "type": one.event["type"],
        "time": one.event["time"],
        "lines": list(one.lines),
        "replacement_chain": list(one.replacement_chain),
    }
