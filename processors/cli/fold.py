"""`surfacelog fold FILE`: what a JSONL file derives, without any service (DESIGN 12)."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # Typer reads the annotation when it runs
from typing import TYPE_CHECKING, Annotated

import typer

from surfacelog.processors.cli.output import (
    STDERR,
    JsonOption,
    print_json,
    print_line,
    print_table,
)
from surfacelog.projections.fold import FoldedLog, fold_log
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.event_rules import require_known_types
from surfacelog.schemas.json_text import JsonTextError, dumps
from surfacelog.schemas.jsonl import StoredLog, read_log
from surfacelog.schemas.legacy import upgrade_events

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject


def fold(
    file: Annotated[
        Path,
        typer.Argument(help="A session log in JSONL, packed or not.", exists=True, dir_okay=False),
    ],
    as_json: JsonOption = False,
) -> None:
    """Show the Surface, header and tokens of a session log in a file; no service is needed."""
    stored = _read(file)
    session_id = str(stored.header["id"])
    events = upgrade_events(stored.events, session_id)
    require_known_types(events)
    if stored.left_out is not None:
        STDERR.print(f"{file}: {stored.left_out}", markup=False)
    _check_numbers(events)
    folded = fold_log(events)
    if as_json:
        print_json(_described(session_id, folded))
    else:
        _print(session_id, folded)


def _read(file: Path) -> StoredLog:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CorruptLogError(f"{file} cannot be read: {error.strerror}") from error
    # Recorders left delegationDepth out, and wrote placeholders for the rest: nothing of the
    # header but the id is used here.
    return read_log(content, default_depth=True)


def _check_numbers(events: list[JsonObject]) -> None:
    """Refuse 1e400 and its like: what is folded could not be printed as JSON."""
    for event in events:
        try:
            dumps(event)
        except JsonTextError as error:
            raise CorruptLogError(f"the event at seq {event['seq']} is {error}") from error


def _described(session_id: str, folded: FoldedLog) -> JsonObject:
    return {
        "session": session_id,
        "events": folded.events,
        "nodes": list(folded.nodes),
        "replacements": [
            {
                "seq": one.seq,
                "start": one.start,
                "end": one.end,
                "shadowedSeqs": list(one.shadowed),
            }
            for one in folded.replacements
        ],
        "messages": [message for message in folded.messages if message is not None],
        "header": folded.header,
        "context": folded.context,
        "tokens": folded.tokens(),
        "node_tokens": list(folded.prices),
    }


def _print(session_id: str, folded: FoldedLog) -> None:
    total = folded.tokens()["total"]
    print_line(
        f"{session_id}: {folded.events} events, generation {folded.generation},"
        f" {folded.surface_tokens} tokens on the Surface,"
        f" {'unknown' if total is None else total} in all"
    )
    rows = zip(folded.nodes, folded.prices, folded.messages, strict=True)
    print_table(
        ("seq", "tokens", "role"),
        ((seq, price, "" if message is None else message["role"]) for seq, price, message in rows),
    )
