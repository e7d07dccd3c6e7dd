"""Values of any depth, anywhere in an event, are carried or refused: they crash nobody.

SEMANTICS 3. Python's own `repr`, `str`, `==` and `asdict` recurse; C stacks end at some depth too.
"""

from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import replace as changed
from typing import TYPE_CHECKING, Any

import pytest
from tests.live_session import ALL_ROLES, HEADER
from tests.unit.logs import Log, call_block, replace, text_block

from surfacelog.projections.admission import Admitted, admit
from surfacelog.projections.admission_open import repairs
from surfacelog.projections.closers import crash_closers
from surfacelog.projections.compaction_invariants import check_compaction_invariants
from surfacelog.projections.event_text import event_text
from surfacelog.projections.fold import fold_log
from surfacelog.projections.loading import load_log
from surfacelog.projections.session_invariants import check_session_invariants
from surfacelog.projections.session_state import SessionState
from surfacelog.projections.session_view import SessionView
from surfacelog.projections.token_views import ContextBreakdown, ContextPressure, TokenUsage
from surfacelog.schemas.chunk_rows import pack_rows
from surfacelog.schemas.chunk_runs import pack_items
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.records import AppendRequest, Open

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEPTH = 2_000
"""Beyond Python's recursion limit."""


def deep() -> Any:
    value: Any = []
    for _ in range(DEPTH):
        value = [value]
    return value


def session() -> list[Any]:
    """A turn with a stream, a call and its result, a compaction, and a turn that is open."""
    log = Log()
    log.start()
    first = log.user()
    log.header(system="s", tools=[{"name": "a"}])
    log.add("request/context", {"provider": "p", "model": "m", "contextWindow": 1000})
    usage = {"inputTokens": 1, "outputTokens": 2}
    chunks: list[Any] = [
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": "abc"},
        {"type": "tool-call-delta", "index": 1, "id": "c", "name": "x", "argumentsDelta": "{}"},
        {"type": "block-end", "index": 0, "block": text_block("abc")},
        {"type": "usage", "usage": usage},
        {"type": "finish", "reason": {"kind": "stop"}},
    ]
    cited = [log.chunk(chunk) for chunk in chunks]
    log.assistant(text_block("abc"), call_block("c"), usage=usage, sourceEventSeqs=cited)
    log.call("c")
    log.result("c", "long" * 50)
    log.end()
    bracket = {"compactionId": "k", "turn": None}
    log.add("compaction/start", bracket)
    span = {"shadowedRange": {"start": first, "end": first}, "shadowedSeqs": [first]}
    log.add("compaction/summary", {"compactionId": "k", **span, "shadowedTokenCount": 10})
    checkpoint = log.user("s", **replace(first, first, [first]))
    source = {"kind": "plugin", "plugin": "compact", "compactionId": "k"}
    log.events[checkpoint]["data"]["source"] = source
    log.add("compaction/end", bracket)
    log.add("hook/result", {"x": 1})
    log.start(2)
    log.add("step/start", {"turn": 2, "step": 1})
    log.assistant(call_block("d"), turn=2)
    return log.events


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every member and the first items of a value."""
    members = value.items() if isinstance(value, dict) else ()
    items = enumerate(value[:2]) if isinstance(value, list) else members
    for key, inner in items:
        yield (*place, key)
        yield from places(inner, (*place, key))


def deepened(at: int) -> Iterator[list[Any]]:
    """Yield the session with a deep value in every place of one of its events."""
    events = session()
    value = deep()
    for *way, last in places(events[at]):
        changed_event = copy.deepcopy(events[at])
        holder = changed_event
        for key in way:
            holder = holder[key]
        holder[last] = value
        yield [*events[:at], changed_event, *events[at + 1 :]]


def view(events: list[Any]) -> None:
    for one in (TokenUsage(), ContextPressure(), ContextBreakdown()):
        for event in events:
            one.apply(event)
        one.view()


def bring_into_a_session(events: list[Any]) -> None:
    """Import the events, as sequencer and projector do, and open the session again."""
    request = AppendRequest(
        session_id="s",
        writer_id="w",
        epoch=0,
        append_seq=0,
        attempt=0,
        role="importer",
        items=pack_items(events),
        open=Open(HEADER, loading=False),
    )
    decision = admit(None, request, bytes(8), topic_role_set=ALL_ROLES, now=1)
    if not isinstance(decision, Admitted):
        return
    batch = changed(decision.batch, chain=bytes(16))
    state, projected = SessionState.new("s"), SessionView("s")
    state.apply(batch)
    repairs(SessionState.from_bytes(state.to_bytes()))
    projected.apply(batch, 0)
    projected.load()


USES: list[Callable[[list[Any]], object]] = [
    bring_into_a_session,
    check_compaction_invariants,
    check_session_invariants,
    crash_closers,
    fold_log,
    lambda events: [event_text(event) for event in events],
    lambda events: list(pack_rows(events)),
    lambda events: load_log({"version": 0, "id": "s", "createdAt": 0}, events),
    view,
]


@pytest.mark.parametrize("at", range(len(session())), ids=[e["type"] for e in session()])
def test_a_deep_value_is_carried_or_refused(at: int) -> None:
    for events in deepened(at):
        for use in USES:
            with suppress(SurfacelogError):
                use(events)
