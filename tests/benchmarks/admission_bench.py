"""Microseconds that admission takes: run it with `python -m tests.benchmarks.admission_bench`.

The session has 500 nodes; each figure is admit and apply of one append of its owner, in CPU time.
"""

from __future__ import annotations

import sys
from itertools import count
from time import process_time_ns
from typing import TYPE_CHECKING, Final

from surfacelog.projections.admission import Admitted, admit
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.records import AppendRequest, Item
from tests.live_session import (
    LiveSession,
    admitted,
    assistant,
    call,
    event,
    result,
    run,
    step_end,
    step_start,
    turn_start,
    user,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from surfacelog.schemas.event_types import Role

NODES: Final = 500
APPENDS: Final = 2000
ROUNDS: Final = 5


def long_session() -> SessionState:
    """Return a session of NODES nodes, the last step still open."""
    session = LiveSession()
    admitted(session.open())
    admitted(session.owner(turn_start()))
    for step in count(1):
        admitted(session.owner(step_start(step)))
        assert session.state is not None
        if len(session.state.surface.nodes) >= NODES:
            return session.state
        calls = (f"a{step}", f"b{step}")
        admitted(session.owner(assistant(*calls, step=step)))
        admitted(session.owner(*(call(c, step=step) for c in calls)))
        admitted(session.owner(*(result(c, step=step) for c in calls), step_end(step)))
    raise AssertionError("count() ends")


def admission_time(state: SessionState, *items: Item) -> float:
    """Return the microseconds of one admit and apply, the best of some rounds."""
    return min(_round(state.copy(), items) for _ in range(ROUNDS))


def _round(state: SessionState, items: tuple[Item, ...]) -> float:
    first = state.writers.by_id["agent"].last_append_seq + 1
    requests = [
        AppendRequest("s", "agent", 1, first + n, 0, "owner", items) for n in range(APPENDS)
    ]
    roles: frozenset[Role] = frozenset({"owner"})
    begin = process_time_ns()
    for request in requests:
        decision = admit(state, request, b"12345678", topic_role_set=roles, now=1)
        assert isinstance(decision, Admitted)
        state.apply(decision.batch)
    return (process_time_ns() - begin) / APPENDS / 1000


def _time(work: Callable[[], object], times: int = 100) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begin = process_time_ns()
        for _ in range(times):
            work()
        best = min(best, (process_time_ns() - begin) / times / 1000)
    return best


def main() -> None:
    """Print the figures."""
    state = long_session()
    step = state.loop.step or 0
    snapshot = state.to_bytes()
    figures = {
        "a run of 30 chunks": admission_time(state, run(*["token "] * 30, step=step)),
        "one log-only event": admission_time(state, event("todo/write", {"todos": []})),
        "one user message": admission_time(state, user("some words " * 20)),
        "an answer citing 300 chunks": admission_time(
            state, assistant(step=step, sourceEventSeqs=list(range(300)))
        ),
        "copy of the state": _time(state.copy),
        "encode a snapshot": _time(state.to_bytes),
        "decode a snapshot": _time(lambda: SessionState.from_bytes(snapshot)),
    }
    for name, microseconds in figures.items():
        sys.stdout.write(f"{name:32}{microseconds:9.1f} us\n")
    sys.stdout.write(f"snapshot of {len(state.surface.nodes)} nodes: {len(snapshot)} bytes\n")


if __name__ == "__main__":
    main()
