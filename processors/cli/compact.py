"""`surfacelog compact`: ask for a compaction and wait for its outcome (DESIGN 12)."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from surfacelog.processors.cli.cancel import cancel
from surfacelog.processors.cli.find_settings import find_settings
from surfacelog.processors.cli.output import JsonOption, print_json, print_line
from surfacelog.processors.compactor.accounts import surface_nodes
from surfacelog.producers.compaction_client import CompactionClient
from surfacelog.projections.compaction_plan import NothingToCompactError, choose_span
from surfacelog.projections.reader import SurfaceReader
from surfacelog.projections.redis_calls import RedisCalls, connect_redis
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.json_text import dumps
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings


class CompactionFailed(SurfacelogError):  # noqa: N818  # what happened, not what was raised
    """The compaction that was asked for came to nothing."""

    code: ClassVar[str] = "compaction_failed"


def compact(
    session: Annotated[str, typer.Argument(help="The session's id.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be compacted.")
    ] = False,
    cancel_running: Annotated[
        bool, typer.Option("--cancel", help="End the compaction that is running.")
    ] = False,
    retain_tokens: Annotated[
        int, typer.Option(min=0, help="Leave a tail worth about so many tokens.")
    ] = 0,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 120.0,
    as_json: JsonOption = False,
) -> None:
    """Put a checkpoint in the place of an older part of a session's Surface."""
    if cancel_running and (dry_run or retain_tokens):
        raise typer.BadParameter(
            "it begins nothing: leave the other options out", param_hint="--cancel"
        )
    settings = find_settings()
    if cancel_running:
        print_result(asyncio.run(cancel(settings, session)), as_json=as_json)
        return
    if dry_run:
        print_result(asyncio.run(_dry_run(settings, session, retain_tokens)), as_json=as_json)
        return
    outcome = asyncio.run(_compact(settings, session, retain_tokens, timeout))
    if outcome.status == "failed":
        raise CompactionFailed(
            outcome.reason or "the compaction failed", session=session, failure=outcome.failure
        )
    print_result(_result(outcome), as_json=as_json)


def print_result(result: JsonObject, *, as_json: bool) -> None:
    """Print a result as one JSON object, or as a line for each member."""
    if as_json:
        print_json(result)
        return
    for name, value in result.items():
        text = dumps(value) if isinstance(value, dict | list) else value
        print_line(f"{name}\t{'-' if text is None else text}")


async def _dry_run(settings: Settings, session: str, retain_tokens: int) -> JsonObject:
    async with await SurfaceReader.connect(settings) as reader:
        cut = await reader.read(session)
    try:
        span = choose_span(surface_nodes(cut), cut.prices, retain_tokens)
    except NothingToCompactError as error:
        print_line(error.message, sys.stderr)
        return {"range": None, "shadowed": [], "tokens_before": cut.tokens.surface}
    return {
        "range": {"start": span.range.start, "end": span.range.end},
        "shadowed": list(span.seqs),
        "tokens_before": cut.tokens.surface,
    }


async def _compact(
    settings: Settings, session: str, retain_tokens: int, seconds: float
) -> CompactionOutcome:
    async with AsyncExitStack() as opened:
        reader = await opened.enter_async_context(await SurfaceReader.connect(settings))
        cut = await reader.read(session)
        calls = RedisCalls(await connect_redis(settings.redis))
        opened.push_async_callback(calls.client.aclose)
        client = CompactionClient(settings, await asyncio.to_thread(connect_codec, settings), calls)
        request = await client.request(
            session,
            generation=cut.generation,
            requested_by="command line",
            retain_tokens=retain_tokens,
        )
        return await client.outcome(request, seconds)


def _result(outcome: CompactionOutcome) -> JsonObject:
    """Return the outcome as printed; ids are null when nothing had to be done, with a reason."""
    result: JsonObject = {
        "compaction_id": outcome.compaction_id,
        "generation": outcome.generation,
        "shadowed": list(outcome.shadowed),
        "tokens_before": outcome.tokens_before,
        "tokens_after": outcome.tokens_after,
        "checkpoint_seq": outcome.checkpoint_seq,
    }
    return result if outcome.reason is None else {**result, "reason": outcome.reason}
