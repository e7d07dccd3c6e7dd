"""`surfacelog trace`: what became of an event, and what it was made from (SEMANTICS 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from surfacelog.processors.cli.output import JsonOption, print_json, print_line
from surfacelog.processors.cli.session_log import whole_log
from surfacelog.projections.trace import EventTrace, LogTrace
from surfacelog.schemas.json_text import dumps

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject


def trace(
    session: Annotated[str, typer.Argument(help="The session's id.")],
    seq: Annotated[int, typer.Argument(min=0, help="The event's seq.")],
    as_json: JsonOption = False,
) -> None:
    """Say whether an event is on the Surface, shadowed or log-only, and what it comes from."""
    events = whole_log(session)
    traced = LogTrace(events).event(seq)
    if as_json:
        print_json(_described(session, events[seq], traced))
        return
    print_line(f"{session} {seq} ({events[seq]['type']}): {traced.standing}")
    for name, seqs in (
        ("shadowed by", traced.replacement_chain),
        ("shadows", traced.replaced),
        ("made from", traced.sources),
        ("cited by", traced.derived),
    ):
        if seqs:
            print_line(f"{name}\t{' '.join(map(dumps, seqs))}")


def _described(session: str, event: JsonObject, traced: EventTrace) -> JsonObject:
    return {
        "session": session,
        "seq": traced.seq,
        "type": event["type"],
        "standing": traced.standing,
        "replaced_by": traced.replaced_by,
        "replacement_chain": list(traced.replacement_chain),
        "replaced": list(traced.replaced),
        "sources": list(traced.sources),
        "derived": list(traced.derived),
    }
