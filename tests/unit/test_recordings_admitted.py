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
from surfacelog.projections.fold import fold_log
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.chunk_runs import pack_items, unpack_items

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import EventBatch, Item

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


def check_state(state: SessionState, log: list[EventBatch]) -> None:
    """The state is what the pure folds make of the log, and what any replay makes of it."""
    events = [e for batch in log for e in unpack_items(batch.items, batch.first_seq)]
    folded = fold_log(events)
    assert tuple(state.surface.seqs()) == folded.nodes
    assert tuple(node.price for node in state.surface.nodes) == folded.prices
    assert tuple(node.delta for node in state.surface.nodes) == folded.deltas
    assert state.generation == folded.generation
    assert state.next_seq == len(events)
    replayed = SessionState.new("s")
    for place, batch in enumerate(log):
        if place == len(log) // 2:
            replayed = SessionState.from_bytes(replayed.to_bytes())
        assert replayed.apply(batch)
    assert replayed.to_bytes() == state.to_bytes()


@recordings
def test_a_recording_is_admitted_as_an_import(path: Path) -> None:
    session, rng = LiveSession(), random.Random(f"{SEED}{path.name}")
    admitted(session.open("imp", "importer", loading=True))
    events = recorded_events(path)
    for items in appends(events, rng):
        admitted(session.send(session.request("imp", "importer", *items)))
    assert session.state is not None
    check_state(session.state, session.log)
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
    assert session.state is not None
    check_state(session.state, session.log)


def _closers(state: SessionState) -> list[JsonObject]:
    """What a next owner's open would append, before the end-seed."""
    made = list(repairs(state))
    return made[:-1] if made and made[-1]["type"] == "session/end-seed" else made


def _is_compaction(event: JsonObject) -> bool:
    data = event["data"]
    source = data.get("source") if isinstance(data, dict) else None
    is_checkpoint = isinstance(source, dict) and source.get("plugin") == "compact"
    return is_checkpoint or str(event["type"]).startswith("compaction/")
