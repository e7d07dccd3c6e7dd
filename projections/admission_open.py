"""Opening a session: creating it, loading it, taking its ownership (DESIGN 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from surfacelog.projections.admission_roles import OPENING_ROLES
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.records import Opened

if TYPE_CHECKING:
    from surfacelog.projections.session_state import SessionState
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import AppendRequest, Open


class Opening(NamedTuple):
    """What an `open` leaves in the log: its mark, and the events that close what was left open."""

    opened: Opened
    repairs: tuple[JsonObject, ...] = ()


def plan_opening(state: SessionState | None, request: AppendRequest, wish: Open) -> Opening:
    """Return what the open does; raise AdmissionError when it may not be done."""
    if request.role not in OPENING_ROLES:
        raise AdmissionError("role", f"the {request.role} may not open a session")
    if wish.loading and request.role != "importer":
        raise AdmissionError(
            "role", f"the {request.role} may not load a session: only an importer writes history"
        )
    if state is None:
        _check_header(wish.header)
        return Opening(Opened(wish.header, 1, wish.loading))
    if request.role == "importer":
        return Opening(_end_of_load(state, request, wish))
    return Opening(Opened(state.header, state.epoch + 1, loading=False), repairs(state))


def repaired(state: SessionState, events: tuple[JsonObject, ...], writer_id: str) -> SessionState:
    """Return a copy of the state after the events that repair its end."""
    copy = state.copy()
    for event in events:
        copy.advance(event, copy.next_seq, writer_id)
        copy.next_seq += 1
    return copy


def repairs(state: SessionState) -> tuple[JsonObject, ...]:
    """Return the crash closers and the session/end-seed that a new owner's log begins with.

    None for a log without events; no end-seed where the log ends with one (SEMANTICS 8).
    """
    if state.next_seq == 0 or state.ends_with_seed:
        return ()
    end_seed: JsonObject = {"type": "session/end-seed", "time": state.last_time, "data": {}}
    return (end_seed,)


def _end_of_load(state: SessionState, request: AppendRequest, wish: Open) -> Opened:
    if not state.loading or wish.loading:
        raise AdmissionError(
            "exists", f"the session {request.session_id} exists: import under another id"
        )
    if not request.items:
        # Without an event and with the old epoch, a replay could not tell it from an old batch.
        raise AdmissionError(
            "malformed", "the append that ends a load has no event: end it with the last events"
        )
    return Opened(state.header, state.epoch, loading=False)


def _check_header(header: JsonObject) -> None:
    version = header.get("version")
    if version != 0:
        raise AdmissionError(
            "unsupported_version", f"the session header has version {version!r}: write version 0"
        )
