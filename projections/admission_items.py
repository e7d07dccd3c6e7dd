"""The checks of an append's events, each at its place in the log (DESIGN 4, SEMANTICS 3)."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from surfacelog.projections.admission_prune import check_prune
from surfacelog.projections.admission_roles import CHUNK_ROLES, check_role
from surfacelog.projections.compaction_bracket import is_replacement
from surfacelog.projections.session_state import EFFECTIVE_TYPES
from surfacelog.schemas.chunk_runs import check_run
from surfacelog.schemas.citations import resolve_citations
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.event_rules import check_event, check_known_type
from surfacelog.schemas.event_types import INBOX_POSTED, OWN_TYPES, SURFACE_TYPES
from surfacelog.schemas.json_value import MAX_SAFE_INTEGER
from surfacelog.schemas.records import ChunkRun, Item

if TYPE_CHECKING:
    from surfacelog.projections.session_state import SessionState
    from surfacelog.schemas.event_types import Role
    from surfacelog.schemas.json_value import JsonObject


def check_items(
    state: SessionState, role: Role, writer_id: str, items: tuple[Item, ...], first_seq: int
) -> None:
    """Raise AdmissionError, with the item's index, for the first item that may not stand.

    `state` is not changed: what an item does to the next ones happens to a copy, which is made
    only where there is something to do and something left to check.
    """
    scratch, seq = state, first_seq
    for index, item in enumerate(items):
        try:
            if isinstance(item, ChunkRun):
                _check_run(scratch, role, item)
                seq += len(item.deltas)
                continue
            event = resolve_citations(item, first_seq)
            _check_form(event)
            check_role(role, event)
            if role == "compactor":
                check_prune(items, index)
            _check_place(scratch, role, event, seq)
        except AdmissionError as error:
            raise AdmissionError(error.refusal, error.message, index) from error
        if index + 1 < len(items) and event["type"] in EFFECTIVE_TYPES:
            scratch = state.copy() if scratch is state else scratch
            scratch.advance(event, seq, writer_id, live=role != "importer")
        seq += 1


def _check_form(event: JsonObject) -> None:
    check_event(event)
    check_known_type(event)
    if "seq" in event:
        raise AdmissionError("malformed", "an event has no seq before it is in the log")
    if event["type"] in OWN_TYPES and event.get("ignorable") is not True:
        raise AdmissionError(
            "malformed", f"{event['type']} is not marked ignorable: other readers must skip it"
        )


def _check_run(state: SessionState, role: Role, run: ChunkRun) -> None:
    if role not in CHUNK_ROLES:
        raise AdmissionError("role", f"the {role} may not write assistant/chunk")
    try:
        check_run(run)
    except ValueError as error:
        raise AdmissionError("malformed", str(error)) from error
    if not _has_exact_times(run):
        raise AdmissionError("malformed", "a chunk run whose times leave the exact integers")
    if role != "importer":
        state.loop.check_place(run.turn, run.step, "a chunk run")


def _has_exact_times(run: ChunkRun) -> bool:
    dt = run.dt
    # No time of the run is further away; adding all of them up takes three times as long.
    reach = abs(run.time) + len(dt) * max(max(dt), -min(dt)) if dt else abs(run.time)
    if reach <= MAX_SAFE_INTEGER:
        return True
    times = (*accumulate(dt, initial=run.time),)
    return min(times) >= -MAX_SAFE_INTEGER and max(times) <= MAX_SAFE_INTEGER


def _check_place(state: SessionState, role: Role, event: JsonObject, seq: int) -> None:
    if role != "importer":
        state.loop.check(event)
        state.brackets.check(event, state.surface)
    if event["type"] in SURFACE_TYPES:
        state.surface.check(event, seq)
    if role != "importer":
        _check_own_rules(state, role, event)


def _check_own_rules(state: SessionState, role: Role, event: JsonObject) -> None:
    """The rules that only a live session has, of events that are sound in themselves (DESIGN 4)."""
    if is_replacement(event):
        state.surface.check_cut(event)
    if event["type"] == INBOX_POSTED:
        state.inbox.check_post()
    elif event["type"] == "user/message":
        state.inbox.check_claim(event, by_owner=role == "owner")
