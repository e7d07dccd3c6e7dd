"""The recorded sessions pass admission: all as imports, all but two also live."""

from __future__ import annotations

import random
from itertools import groupby
from typing import TYPE_CHECKING

import pytest
from tests.codec_cases import RECORDINGS, recorded_events
from tests.live_session import LiveSession, admitted

from surfacelog.projections.admission import Refused
from surfacelog.projections.admission_open import repairs
from surfacelog.projections.closers import crash_closers
from surfacelog.schemas.chunk_runs import pack_items

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from surfacelog.projections.session_state import SessionState
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import Item

SEED = 20_260
# What a live session would refuse: one has turns and steps with numbers of its own, the other a
# checkpoint without a bracket.
NOT_LIVE = {
    "headless-agent-ralph-loop-session.1.jsonl": "turn",
    "acp-agent-agent-instructions-session.jsonl": "compaction.invalid",
}
recordings = pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)


def appends(events: list[JsonObject], rng: random.Random) -> Iterator[tuple[Item, ...]]:
    """Cut a log in appends of random sizes."""
    place = 0
    while place < len(events):
        size = rng.choice([1, 2, 5, 40])
        yield pack_items(events[place : place + size])
        place += size


@recordings
def test_a_recording_is_admitted_as_an_import(path: Path) -> None:
    session, rng = LiveSession(), random.Random(f"{SEED}{path.name}")
    admitted(session.open("imp", "importer", loading=True))
    events = recorded_events(path)
    for items in appends(events, rng):
        admitted(session.send(session.request("imp", "importer", *items)))
    session.check()
    assert session.state is not None
    assert _closers(session.state) == [
        {name: value for name, value in closer.items() if name != "seq"}
        for closer in crash_closers(events)
    ]


@recordings
def test_a_recording_is_admitted_live(path: Path) -> None:
    session, rng = LiveSession(), random.Random(f"{SEED}{path.name}")
    admitted(session.open())
    events = recorded_events(path)
    for by_compactor, group in groupby(events, _is_compaction):
        for items in [pack_items(group)] if by_compactor else appends(list(group), rng):
            decision = session.compactor(*items) if by_compactor else session.owner(*items)
            if isinstance(decision, Refused):
                assert decision.code == NOT_LIVE[path.name]
                return
    assert path.name not in NOT_LIVE
    session.check()


def _closers(state: SessionState) -> list[JsonObject]:
    """What a next owner's open would append, before the end-seed."""
    made = list(repairs(state))
    return made[:-1] if made and made[-1]["type"] == "session/end-seed" else made


def _is_compaction(event: JsonObject) -> bool:
    data = event["data"]
    source = data.get("source") if isinstance(data, dict) else None
    is_checkpoint = isinstance(source, dict) and source.get("plugin") == "compact"
    return is_checkpoint or str(event["type"]).startswith("compaction/")
