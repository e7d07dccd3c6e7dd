"""The proof at the end: each session against what was sent and what the recordings derive to."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surfacelog.projections.dynamic_context import shown_sections
from surfacelog.projections.fold import fold_log
from surfacelog.schemas.codec import unpack_items
from surfacelog.schemas.json_value import list_member

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from surfacelog.projections.fold import FoldedLog
    from surfacelog.projections.log_reader import LogReader
    from surfacelog.projections.reader import SurfaceCut, SurfaceReader
    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import EventBatch


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checks of one session found; it is right when `problems` is empty."""

    session: str
    events: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Checker:
    """Compares the log, the Surface in Redis, what writers sent and the recordings' answers."""

    log: LogReader
    surface: SurfaceReader

    async def check(
        self,
        session: str,
        sent: Sequence[JsonObject] | None,
        answer: JsonObject | None = None,
        told: Mapping[str, Mapping[str, str]] | None = None,
    ) -> Verdict:
        """Check one session.

        `sent` are the events that its agent wrote (None: it was imported); `answer` is the
        recording's entry in INDEX.json (None: others wrote to the session too, or nothing was
        recorded); `told` are the sections that the model has to see, by plugin.
        """
        batches = await asyncio.to_thread(self._batches, session)
        events = _events(batches)
        folded = fold_log(events)
        cut = await self.surface.read(session, at_least=len(events) - 1)
        problems = _differs_from_fold(cut, folded)
        if [event["seq"] for event in events] != list(range(len(events))):
            problems.append("the log is not contiguous")
        if sent is not None:
            owned = [batch for batch in batches if batch.role == "owner"]
            problems += _differs_from_sent(_events(owned), sent)
        if answer is not None:
            problems += _differs_from_answer(folded, answer)
        for plugin, sections in (told or {}).items():
            if shown_sections(cut.messages, plugin) != sections:
                problems.append(f"the model does not see what it has to know of {plugin}")
        return Verdict(session, len(events), tuple(problems))

    def _batches(self, session: str) -> list[EventBatch]:
        return [batch for _, batch in self.log.batches(session)]


def read_answers(recordings: Path) -> dict[str, JsonObject]:
    """Return the entries of INDEX.json by file name."""
    return {entry["file"]: entry for entry in json.loads((recordings / "INDEX.json").read_text())}


def _events(batches: Iterable[EventBatch]) -> list[JsonObject]:
    return [event for batch in batches for event in unpack_items(batch.items, batch.first_seq)]


def _differing(pairs: dict[str, tuple[object, object]], text: str) -> list[str]:
    return [f"{name} {text}" for name, (one, other) in pairs.items() if one != other]


def _differs_from_fold(cut: SurfaceCut, folded: FoldedLog) -> list[str]:
    """Compare the projection in Redis with a fold of the whole log."""
    pairs: dict[str, tuple[object, object]] = {
        "seq": (cut.as_of_seq, folded.events - 1),
        "nodes": (cut.nodes, folded.nodes),
        "messages": (list(cut.messages), [each for each in folded.messages if each is not None]),
        "prices": (cut.prices, folded.prices),
        "generation": (cut.generation, folded.generation),
        "header": (cut.header, folded.header),
        "context": (cut.context, folded.context),
    }
    return _differing(pairs, "in Redis differs from the log's")


def _differs_from_sent(logged: Sequence[JsonObject], sent: Sequence[JsonObject]) -> list[str]:
    """Compare the owner's events in the log with what it sent: all but times and seqs."""
    if len(logged) != len(sent):
        return [f"{len(sent)} events were sent, {len(logged)} are in the log"]
    places = {theirs["seq"]: event["seq"] for event, theirs in zip(logged, sent, strict=True)}
    for event, theirs in zip(logged, sent, strict=True):
        cited = theirs.get("sourceEventSeqs")
        if isinstance(cited, list):
            theirs = {**theirs, "sourceEventSeqs": [places.get(seq) for seq in cited]}
        if _without_place(event) != _without_place(theirs):
            return [f"the event at seq {event['seq']} is not what was sent"]
    return []


def _without_place(event: JsonObject) -> JsonObject:
    return {name: value for name, value in event.items() if name not in ("seq", "time")}


def _differs_from_answer(folded: FoldedLog, answer: JsonObject) -> list[str]:
    """Compare with what the reference derives from the recording."""
    messages = [message for message in folded.messages if message is not None]
    pairs: dict[str, tuple[object, object]] = {
        "events": (folded.events, answer["events"]),
        "surface": (list(folded.nodes), answer["surface"]),
        "replacements": (folded.generation, len(list_member(answer, "replacements"))),
        "messages": (_digest(list(messages)), answer["messages_sha"]),
        "header": (_digest(folded.header), answer["request_header_sha"]),
        "context": (folded.context, answer["request_context"]),
        "prices": (list(folded.prices), answer["node_tokens"]),
    }
    return [
        f"{name} differs from the recording's answer" for name, (a, b) in pairs.items() if a != b
    ]


def _digest(value: JsonValue) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
