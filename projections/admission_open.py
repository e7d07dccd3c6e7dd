"""Opening a session: creating it, loading it, taking its ownership (DESIGN 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from surfacelog.projections.admission_roles import OPENING_ROLES
from surfacelog.projections.closers import turn_closers
from surfacelog.schemas.errors import AdmissionError, CorruptLogError, UnsupportedLogError
from surfacelog.schemas.records import Opened
from surfacelog.schemas.session_header import check_header, check_recorded_header

if TYPE_CHECKING:
    from surfacelog.projections.closers import OpenTurn
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
        _check_header(wish.header, request)
        return Opening(Opened(wish.header, 1, wish.loading))
    if request.role == "importer":
        return Opening(_end_of_load(state, request, wish))
    return Opening(Opened(state.header, state.epoch + 1, loading=False), repairs(state))


def repaired(state: SessionState, events: tuple[JsonObject, ...], writer_id: str) -> SessionState:
    """Return a copy of the state after the events that repair its end."""
    copy = state.copy()
    for event in events:
        copy.advance(event, copy.next_seq, writer_id, live=True)
        copy.next_seq += 1
    return copy


def repairs(state: SessionState) -> tuple[JsonObject, ...]:
    """Return the crash closers and the session/end-seed that a new owner's log begins with.

    None for a log without events; no end-seed where the log ends with one (SEMANTICS 8).
    """
    if state.next_seq == 0:
        return ()
    open_turn = state.loop.open_turn()
    closers: list[JsonObject] = []
    if open_turn is not None:
        _forget_nameless(open_turn)
        closers = turn_closers(open_turn, state.next_seq, state.last_time)
    elif state.ends_with_seed:
        return ()
    end_seed: JsonObject = {"type": "session/end-seed", "time": state.last_time, "data": {}}
    return (*map(_without_seq, closers), end_seed)


def _forget_nameless(turn: OpenTurn) -> None:
    """Drop imported calls that no tool/result can name: their closer would be malformed."""
    for key, call in list(turn.calls.items()):
        if not (isinstance(call.call_id, str) and call.call_id):
            del turn.calls[key]


def _without_seq(event: JsonObject) -> JsonObject:
    return {name: value for name, value in event.items() if name != "seq"}


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


def _check_header(header: JsonObject, request: AppendRequest) -> None:
    """Refuse a header with which the exported session could not be read again."""
    check = check_recorded_header if request.role == "importer" else check_header
    try:
        check(header)
    except UnsupportedLogError as error:
        raise AdmissionError("unsupported_version", error.message) from error
    except CorruptLogError as error:
        raise AdmissionError("malformed", error.message) from error
    if header["id"] != request.session_id:
        raise AdmissionError(
            "malformed",
            f"the header is of session {str(header['id'])[:140]!r}: name {request.session_id}",
        )
