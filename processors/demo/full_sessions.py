"""Two sessions that become too long while their agents write, and a compactor that dies.

Nobody asks for a compaction here: the projector sees a session pass its threshold. There are two
compactors, each with half of the partitions and so with one of the sessions. The second is
killed when it has begun; the first has to do its work, too.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surfacelog.processors.demo.patience import DemoError, until
from surfacelog.processors.demo.reviewer import MODEL, PROVIDER, WINDOW
from surfacelog.processors.demo.second_compactor import SecondCompactor
from surfacelog.projections.compaction_policy import budget, configured_policies
from surfacelog.projections.fold import fold_log
from surfacelog.schemas.event_types import COMPACTION_RECEIPT
from surfacelog.schemas.json_value import int_member, text_member
from surfacelog.schemas.topics import partition_of

if TYPE_CHECKING:
    from pathlib import Path

    from surfacelog.processors.demo.reviewer import Reviewer
    from surfacelog.processors.demo.watch import Watch
    from surfacelog.projections.log_reader import LogReader
    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.settings import Settings


@dataclass(frozen=True, slots=True)
class FullSessions:
    """What happens to the sessions of two reviewers. Processes write to `output`."""

    settings: Settings
    reviewers: tuple[Reviewer, ...]
    log: LogReader
    watch: Watch
    output: Path

    async def play(self) -> None:
        """Fill both sessions; return when both were compacted and their agents have seen it.

        Raises DemoError when anything else happens.
        """
        async with SecondCompactor(self.settings, self.output) as second:
            partitions = await second.joined()
            self.watch.say(
                f"A second compactor has taken over partitions {_listed(partitions)}. It will be"
                " killed in its first compaction."
            )
            async with asyncio.TaskGroup() as scenes:
                for reviewer in self.reviewers:
                    scenes.create_task(reviewer.work())
                    home = partition_of(reviewer.session, self.settings.partitions)
                    if home in partitions:
                        scenes.create_task(self._taken_over(reviewer, second))
                    else:
                        scenes.create_task(self._compacted(reviewer))

    async def _compacted(self, reviewer: Reviewer) -> None:
        """Follow a session to its compaction by the compactor that lives."""
        session = reviewer.session
        await self._until_compacted(session)
        events = await self._events(session)
        _check_ends(session, events, [None])
        self.watch.say(f"{self._pressure(session, events)} {_result(events)}")
        await self._until_told_again(reviewer)

    async def _taken_over(self, reviewer: Reviewer, second: SecondCompactor) -> None:
        """Follow a session to its compaction by another compactor than the one that began it."""
        session = reviewer.session
        await second.died()
        died = time.monotonic()
        started = await self._events(session)
        self.watch.say(
            f"{self._pressure(session, started)} Compactor 2 began and was killed with -9 right"
            " after its compaction/start. The agent goes on."
        )
        await self._until_compacted(session)
        events = await self._events(session)
        _check_ends(session, events, ["orphaned", None])
        self.watch.say(
            f"{session}: {time.monotonic() - died:.0f} s later compactor 1 has taken over, closed"
            f" the bracket that stood open, and begun anew. {_result(events)}"
        )
        await self._until_told_again(reviewer)

    async def _until_compacted(self, session: str) -> None:
        rows = self.watch.rows
        await until(
            f"{session} is compacted", lambda: session in rows and rows[session].generation > 0
        )

    async def _until_told_again(self, reviewer: Reviewer) -> None:
        await until(f"{reviewer.session} is told its context", lambda: reviewer.snapshots > 1)
        self.watch.say(
            f"{reviewer.session}: what its agent had told the model of its workspace was in that"
            " span, too. ensure_context has told it again."
        )

    async def _events(self, session: str) -> list[JsonObject]:
        return await asyncio.to_thread(lambda: list(self.log.events(session)))

    def _pressure(self, session: str, events: list[JsonObject]) -> str:
        """Say how full the session was when its first compaction began."""
        start = next(e["seq"] for e in events if e["type"] == "compaction/start")
        total = fold_log([e for e in events if e["seq"] < start]).tokens()["total"]  # type: ignore[operator]
        policy = configured_policies(self.settings).policy(PROVIDER, MODEL)
        return (
            f"{session} has passed its threshold of {budget(policy, WINDOW).threshold} tokens while"
            f" its agent streams: {total} of {WINDOW}. The projector asked for a compaction."
        )


def _check_ends(session: str, events: list[JsonObject], wanted: list[str | None]) -> None:
    """Check how each compaction ended, and that the one that landed was asked for by pressure."""
    ends = [text_member(e["data"], "errorClass") for e in events if e["type"] == "compaction/end"]
    asked = text_member(_receipt(events), "trigger")
    if ends != wanted or asked != "pressure":
        raise DemoError(
            f"{session}: its compactions ended {ends}, not {wanted}, and the last one came of"
            f" {asked}, not of pressure"
        )


def _result(events: list[JsonObject]) -> str:
    receipt = _receipt(events)
    before, after = int_member(receipt, "tokensBefore"), int_member(receipt, "tokensAfter")
    return (
        f"{int_member(receipt, 'shadowedCount')} nodes were replaced by a checkpoint: {before}"
        f" tokens -> {after}."
    )


def _receipt(events: list[JsonObject]) -> JsonValue:
    return [event["data"] for event in events if event["type"] == COMPACTION_RECEIPT][-1]


def _listed(numbers: set[int]) -> str:
    return ", ".join(map(str, sorted(numbers)))
