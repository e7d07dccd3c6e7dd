"""`surfacelog surface` and `surfacelog header`: what the model sees of a session (DESIGN 12)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from surfacelog.processors.cli.find_settings import find_settings
from surfacelog.processors.cli.output import JsonOption, print_json, print_line, print_table
from surfacelog.projections.fold import fold_log
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.projections.reader import SurfaceCut, SurfaceReader
from surfacelog.schemas.errors import NotFoundError
from surfacelog.schemas.json_text import dumps
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings

Session: TypeAlias = Annotated[str, typer.Argument(help="The session's id.")]
AtLeast: TypeAlias = Annotated[
    int | None, typer.Option(min=0, help="Wait until this seq is included.")
]
At: TypeAlias = Annotated[
    int | None, typer.Option(min=0, help="The state after this seq, from the log alone.")
]
Timeout: TypeAlias = Annotated[float, typer.Option(min=0, help="Seconds to wait.")]


@dataclass(frozen=True, slots=True)
class _State:
    """A session as of one seq, from Redis or from the log."""

    as_of_seq: int
    generation: int
    tokens: JsonObject
    nodes: tuple[int, ...]
    prices: tuple[int, ...]
    messages: tuple[JsonObject, ...]
    header: JsonObject | None
    context: JsonObject | None


def surface(
    session: Session,
    at_least: AtLeast = None,
    at: At = None,
    timeout: Timeout = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Show the messages that the model sees now, or saw after a seq."""
    state = _state(session, at_least, at, timeout)
    if not as_json:
        _print_surface(session, state)
        return
    print_json(
        {
            "session": session,
            "as_of_seq": state.as_of_seq,
            "generation": state.generation,
            "tokens": state.tokens,
            "nodes": list(state.nodes),
            "messages": list(state.messages),
        }
    )


def header(
    session: Session,
    at_least: AtLeast = None,
    at: At = None,
    timeout: Timeout = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Show the request header and context in force now, or after a seq."""
    state = _state(session, at_least, at, timeout)
    if as_json:
        shown: JsonObject = {"session": session, "as_of_seq": state.as_of_seq}
        print_json({**shown, "header": state.header, "context": state.context})
        return
    print_line(f"{session} as of seq {state.as_of_seq}")
    print_line(f"header  {dumps(state.header)}")
    print_line(f"context {dumps(state.context)}")


def _state(session: str, at_least: int | None, at: int | None, timeout: float) -> _State:
    if at is not None and at_least is not None:
        raise typer.BadParameter("--at reads the log, which has it all: leave --at-least out")
    settings = find_settings()
    if at is not None:
        return _from_log(settings, session, at)
    return asyncio.run(_from_redis(settings, session, at_least, timeout))


async def _from_redis(
    settings: Settings,
    session: str,
    at_least: int | None,
    timeout: float,  # noqa: ASYNC109  # the reader's own, told in its error
) -> _State:
    async with await SurfaceReader.connect(settings) as reader:
        cut: SurfaceCut = await reader.read(session, at_least=at_least, timeout=timeout)
    return _State(
        as_of_seq=cut.as_of_seq,
        generation=cut.generation,
        tokens=cut.tokens.to_json(),
        nodes=cut.nodes,
        prices=cut.prices,
        messages=cut.messages,
        header=cut.header,
        context=cut.context,
    )


def _from_log(settings: Settings, session: str, at: int) -> _State:
    reader = LogReader(settings, connect_codec(settings), SessionIndex(settings))
    folded = fold_log(reader.events(session, 0, at))
    if folded.events <= at:
        raise NotFoundError(
            f"{session} ends with seq {folded.events - 1}: there is no state after {at}",
            session=session,
            last_seq=folded.events - 1,
        )
    return _State(
        as_of_seq=at,
        generation=folded.generation,
        tokens=folded.tokens(),
        nodes=folded.nodes,
        prices=folded.prices,
        messages=tuple(message for message in folded.messages if message is not None),
        header=folded.header,
        context=folded.context,
    )


def _print_surface(session: str, state: _State) -> None:
    print_line(
        f"{session} as of seq {state.as_of_seq}: generation {state.generation},"
        f" {len(state.nodes)} nodes, {state.tokens['surface']} tokens"
    )
    priced = zip(state.nodes, state.prices, strict=True)
    # A node that costs nothing is an empty assistant message, which the model does not see.
    seen = ((seq, price) for seq, price in priced if price)
    rows = (
        (seq, price, message["role"], _excerpt(message))
        for (seq, price), message in zip(seen, state.messages, strict=True)
    )
    print_table(("seq", "tokens", "role", "content"), rows)


def _excerpt(message: JsonObject) -> str:
    text = dumps(message.get("content"))
    return text if len(text) <= 80 else f"{text[:77]}..."
