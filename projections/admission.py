"""Admission: may this append stand at the end of this log? (DESIGN 4)

`admit` is pure and never changes the state that it is given. The caller computes the chain and
the bytes of an admitted batch and then applies it. What needs Kafka (decoding, the partition,
the size) is checked before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from surfacelog.projections.admission_items import check_items
from surfacelog.projections.admission_open import plan_opening, repaired
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.citations import resolve_citations
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.ids import ID_PATTERN, is_valid_id
from surfacelog.schemas.records import ChunkRun, EventBatch

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from surfacelog.projections.admission_open import Opening
    from surfacelog.schemas.event_types import Role
    from surfacelog.schemas.records import AppendRequest, Expectation, Item


class Admitted(NamedTuple):
    """The next batch of the log, its chain still empty.

    `as_sent` says that its items are exactly the request's, so that their bytes can be spliced;
    else (an open that brought closers) they must be encoded.
    """

    batch: EventBatch
    as_sent: bool


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The append is in the log: its inclusive seqs and its epoch, as in a `Receipt`."""

    first_seq: int | None = None
    last_seq: int | None = None
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The append changes nothing. `code` is one of `schemas.refusals.CODES`."""

    code: str
    message: str
    event_index: int | None = None


Decision: TypeAlias = Admitted | Duplicate | Refused


def admit(
    state: SessionState | None,
    request: AppendRequest,
    digest: bytes,
    *,
    topic_role_set: AbstractSet[Role],
    now: int,
) -> Decision:
    """Decide on one append of a session whose log `state` describes (None: no such session).

    `digest` is the request's (8 bytes, attempt aside), `topic_role_set` the roles that its topic
    admits, `now` the time of admission in ms UTC.
    """
    try:
        _check_identity(state, request, topic_role_set)
        known = _find_duplicate(state, request, digest)
        return known if known is not None else _admit_new(state, request, digest, now)
    except AdmissionError as error:
        return Refused(error.refusal, error.message, error.event_index)


def _check_identity(
    state: SessionState | None, request: AppendRequest, topic_role_set: AbstractSet[Role]
) -> None:
    if request.append_seq < 0:
        raise AdmissionError("malformed", f"append_seq {request.append_seq}: count from 0")
    # The ids of a known session and writer were checked when they first came.
    writer = None if state is None else state.writers.by_id.get(request.writer_id)
    if writer is None:
        for name, value in (("session", request.session_id), ("writer", request.writer_id)):
            if not is_valid_id(value):
                raise AdmissionError(
                    "malformed", f"the {name} id {value[:140]!r} does not match {ID_PATTERN}"
                )
    if request.role not in topic_role_set:
        raise AdmissionError(
            "role", f"the role {request.role} is not admitted from this topic: send it to its own"
        )
    if writer is not None and request.role != writer.role:
        # Else whoever may post to an inbox could take the numbers of the owner's appends.
        raise AdmissionError(
            "role", f"{request.writer_id} writes as {writer.role}: take an id of your own"
        )


def _find_duplicate(
    state: SessionState | None, request: AppendRequest, digest: bytes
) -> Duplicate | None:
    """Return the answer to a resend; raise `order` for a gap or for other content."""
    writer = None if state is None else state.writers.by_id.get(request.writer_id)
    last = -1 if writer is None else writer.last_append_seq
    if writer is None or request.append_seq > last:
        if state is None and request.open is None:
            raise AdmissionError(
                "not_found", f"there is no session {request.session_id}: open it first"
            )
        if request.append_seq != last + 1:
            if writer is None and state is not None:
                _check_forgotten(state, request)
            raise AdmissionError(
                "order", f"append_seq {request.append_seq}, but {last + 1} is next: send that first"
            )
        return None
    appended = writer.find(request.append_seq)
    if appended is None:
        return Duplicate()
    if appended.digest != digest:
        raise AdmissionError(
            "order",
            f"append_seq {request.append_seq} is in the log with other content: number new"
            f" content from {last + 1}",
        )
    if appended.first_seq == appended.next_seq:
        return Duplicate(epoch=appended.epoch)
    return Duplicate(appended.first_seq, appended.next_seq - 1, appended.epoch)


def _check_forgotten(state: SessionState, request: AppendRequest) -> None:
    """Tell an owner of an older epoch what it is, not which number comes next: none of its own is
    admitted again. While it owned the session it was never forgotten."""
    if request.role == "owner" and request.open is None and 0 < request.epoch < state.epoch:
        raise _fenced(state, request)


def _admit_new(
    state: SessionState | None, request: AppendRequest, digest: bytes, now: int
) -> Admitted:
    if state is not None and state.loading and request.writer_id != state.owner:
        raise AdmissionError(
            "loading", f"{request.session_id} is being loaded by {state.owner}: wait for its end"
        )
    opening = None
    if request.open is not None:
        opening = plan_opening(state, request, request.open)
    elif not request.items:
        raise AdmissionError("malformed", "an append without open carries at least one event")
    base = SessionState.new(request.session_id) if state is None else state
    if opening is None:
        _check_epoch(base, request)
    if request.expect is not None:
        _check_expectations(base, request.expect)
    return _batch(base, request, digest, now, opening)


def _batch(
    base: SessionState, request: AppendRequest, digest: bytes, now: int, opening: Opening | None
) -> Admitted:
    opened, repairs = (None, ()) if opening is None else opening
    items = request.items
    if repairs:
        base = repaired(base, repairs, request.writer_id)
        # Their own citations count from the request's first event, which is no longer the batch's.
        items = tuple(_resolved(item, base.next_seq) for item in items)
    check_items(base, request.role, request.writer_id, items, base.next_seq)
    batch = EventBatch(
        session_id=request.session_id,
        first_seq=base.next_seq - len(repairs),
        writer_id=request.writer_id,
        append_seq=request.append_seq,
        role=request.role,
        epoch=base.epoch if opened is None else opened.epoch,
        admitted_at=now,
        request_digest=digest,
        chain=b"",
        items=(*repairs, *items) if repairs else items,
        opened=opened,
    )
    return Admitted(batch, as_sent=not repairs)


def _check_epoch(state: SessionState, request: AppendRequest) -> None:
    is_owner = request.writer_id == state.owner
    if request.role == "importer" and not (state.loading and is_owner):
        raise AdmissionError("role", "an importer writes only while it loads the session")
    if request.role == "owner" and not (is_owner and request.epoch == state.epoch):
        raise _fenced(state, request)
    if request.role != "owner" and request.epoch not in (0, state.epoch):
        raise AdmissionError(
            "fenced", f"epoch {request.epoch} is not the session's, {state.epoch}: send 0"
        )


def _fenced(state: SessionState, request: AppendRequest) -> AdmissionError:
    return AdmissionError(
        "fenced",
        f"{request.writer_id} with epoch {request.epoch} is not the owner: {state.owner} is,"
        f" with epoch {state.epoch}; open the session again to write to it",
    )


def _check_expectations(state: SessionState, expect: Expectation) -> None:
    for name in ("next_seq", "generation", "epoch"):
        wanted, found = getattr(expect, name), getattr(state, name)
        if wanted is not None and wanted != found:
            raise AdmissionError(
                "expectation",
                f"{name} is {found}, not {wanted} as expected: read again, decide anew",
            )


def _resolved(item: Item, first_seq: int) -> Item:
    return item if isinstance(item, ChunkRun) else resolve_citations(item, first_seq)
