"""The projector's view of a session against the folds over the whole log."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from tests.live_session import posted, run, span, step_start, turn_start, user
from tests.log_maker import LogMaker, appends_of

from surfacelog.projections.messages import derived_message
from surfacelog.projections.meter import Meter
from surfacelog.projections.session_view import GapError, SessionView, replaces
from surfacelog.projections.store import StoredSession
from surfacelog.projections.surface import SurfaceFold
from surfacelog.projections.tokens import message_price
from surfacelog.schemas.chunk_runs import unpack_items
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_text import dumps, loads
from surfacelog.schemas.records import EventBatch, Item

if TYPE_CHECKING:
    from surfacelog.projections.session_change import SessionChange
    from surfacelog.schemas.json_value import JsonObject


@dataclass
class Stored:
    """What Redis would hold."""

    fields: dict[str, str] = field(default_factory=dict)
    nodes: list[int] = field(default_factory=list)
    prices: dict[int, int] = field(default_factory=dict)
    messages: dict[int, str] = field(default_factory=dict)
    header: str | None = None
    context: str | None = None
    transcript: list[int] = field(default_factory=list)
    posts: dict[int, str] = field(default_factory=dict)

    def write(self, change: SessionChange) -> None:
        self.fields |= {name: str(value) for name, value in change.fields.items()}
        self.fields |= {"watermark": str(change.next_seq - 1), "offset": str(change.offset)}
        self.nodes = self.nodes + change.pushed if change.nodes is None else change.nodes
        for seq in change.dropped:
            del self.prices[seq]
            self.messages.pop(seq, None)
        self.prices |= change.prices
        self.messages |= change.messages
        self.transcript += change.transcript
        self.header = change.header or self.header
        self.context = change.context or self.context
        self.posts |= change.posts
        for seq in change.claims:
            self.posts.pop(seq, None)

    def read(self) -> StoredSession:
        return StoredSession(dict(self.fields), self.header, tuple(self.nodes), dict(self.prices))


def batch_of(items: tuple[Item, ...], first_seq: int) -> EventBatch:
    return EventBatch("s", first_seq, "w", 0, "owner", 1, 0, b"", b"\1\2", items)


def check(stored: Stored, events: list[JsonObject]) -> None:
    fold, meter = SurfaceFold(), Meter()
    messages: dict[int, JsonObject | None] = {}
    prices: dict[int, int] = {}
    for one in events:
        seq = int(str(one["seq"]))
        made = fold.apply(one)
        shadowed = sum(prices[s] for s in made.shadowed) if made else 0
        messages[seq] = derived_message(one) if "surfaceOp" in one else None
        prices[seq] = message_price(messages[seq])
        meter.apply(one, shadowed)
    assert stored.nodes == fold.nodes
    assert stored.prices == {seq: prices[seq] for seq in fold.nodes}
    assert {s: loads(m) for s, m in stored.messages.items()} == {
        s: messages[s] for s in fold.nodes if messages[s] is not None
    }
    assert int(stored.fields.get("generation", 0)) == fold.generation
    assert int(stored.fields.get("tokens", 0)) == meter.surface
    if "meter" in stored.fields:
        assert Meter.from_json(loads(stored.fields["meter"])).measure() == meter.measure()


@pytest.mark.parametrize("seed", range(40))
def test_the_view_follows_the_folds_also_after_restarts_anywhere(seed: int) -> None:
    rng = random.Random(seed)
    maker = LogMaker(rng)
    for _ in range(5):
        maker.add_turn()
    events = list(unpack_items(maker.items, 0))
    stored, view, seq = Stored(), SessionView("s"), 0
    for offset, items in enumerate(appends_of(maker.items, rng)):
        batch = batch_of(items, seq)
        if rng.random() < 0.3:
            view = SessionView.restore("s", stored.read(), surface=False)
        if replaces(batch) and not view.has_surface:
            view = SessionView.restore("s", stored.read(), surface=True)
        assert not view.contains(batch, offset)
        missing = view.missing_chunks(batch)
        if missing is not None:
            view.add_chunks(events[missing.start : missing.end + 1])
        stored.write(view.apply(batch, offset))
        assert view.contains(batch, offset)
        seq = batch.next_seq
        check(stored, events[:seq])
    assert stored.transcript == [e["seq"] for e in events if e.get("surfaceOp") == "append"]


def test_streaming_writes_nothing_but_positions() -> None:
    view = SessionView("s")
    view.apply(batch_of((turn_start(), step_start()), 0), 0)
    change = view.apply(batch_of((run("a", "b", "c"),), 2), 1)
    assert (change.first_seq, change.next_seq) == (2, 5)
    assert change.fields.keys() == {"epoch", "chain", "activity"}
    assert change.nodes is None
    assert not change.pushed
    assert not change.messages


def test_a_gap_is_told_from_what_is_older() -> None:
    view = SessionView("s")
    view.apply(batch_of((user(),), 0), 3)
    assert view.contains(batch_of((user(),), 0), 3)
    with pytest.raises(GapError):
        view.apply(batch_of((user(),), 2), 9)


def test_an_append_without_events_is_known_by_its_offset() -> None:
    view = SessionView("s")
    assert not view.contains(batch_of((), 0), 3)
    view.apply(batch_of((), 0), 3)
    assert view.contains(batch_of((), 0), 3)
    assert not view.contains(batch_of((), 0), 5)


def test_posts_wait_until_a_message_claims_them() -> None:
    view, stored = SessionView("s"), Stored()
    stored.write(view.apply(batch_of((posted("one"), posted("two")), 0), 0))
    assert sorted(stored.posts) == [0, 1]
    stored.write(view.apply(batch_of((user(sourceEventSeqs=[0]),), 2), 1))
    assert sorted(stored.posts) == [1]
    assert dumps(loads(stored.posts[1])) == stored.posts[1]


def test_a_span_that_is_not_there_cannot_be_applied() -> None:
    view = SessionView("s")
    with pytest.raises(CorruptLogError):
        view.apply(batch_of((user(), user("x", span(4, 4), sourceEventSeqs=[4])), 0), 0)
