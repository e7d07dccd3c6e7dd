"""A JSONL session log made ready for import: read, checked and normalized as a whole. Pure.

Nothing of a file is written before all of it is known to be admissible: `plan_appends` asks the
same admission as the sequencer does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from surfacelog.projections.admission import Admitted, Refused, admit
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.codec import pack_items
from surfacelog.schemas.errors import AdmissionError, CorruptLogError
from surfacelog.schemas.event_rules import check_event, check_lossless, require_known_types
from surfacelog.schemas.ids import ID_PATTERN, is_valid_id
from surfacelog.schemas.json_lenient import lenient_loads
from surfacelog.schemas.json_text import JsonTextError, dumps, replace_lone_surrogates
from surfacelog.schemas.json_value import whole_member
from surfacelog.schemas.jsonl import read_log
from surfacelog.schemas.legacy import upgrade_events
from surfacelog.schemas.records import AppendRequest, ChunkRun, Open
from surfacelog.schemas.session_header import FORMAT_VERSION, check_recorded_header
from surfacelog.schemas.surface_form import cited_seqs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfacelog.schemas.event_types import Role
    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import Item

APPEND_EVENTS: Final = 300
APPEND_BYTES: Final = 512 * 1024

_ROLES: Final[frozenset[Role]] = frozenset({"importer"})
_ENVELOPE: Final = ("type", "seq", "time", "data", "ignorable", "sourceEventSeqs", "surfaceOp")
_DIGEST: Final = bytes(8)
_CHAIN: Final = bytes(16)


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """A session to import. `events` have their seqs; `warnings` say what was changed or left out.

    `writer_id` derives from the events, so that a second import of the same log is recognized.
    """

    session_id: str
    header: JsonObject
    events: tuple[JsonObject, ...]
    warnings: tuple[str, ...]
    writer_id: str


def read_recording(content: bytes, session_id: str | None = None) -> RecordedLog:
    """Return what a file holds, normalized, for the session `session_id` (default: its own id).

    Raises CorruptLogError, UnsupportedLogError, and AdmissionError `malformed` for an id that
    no session may have.
    """
    stored = read_log(content, default_depth=True)
    _check_encoding(content[: stored.committed_bytes])
    warnings = []
    normal = _Normalizer()
    header = normal.header(stored.header)
    if stored.left_out is not None:
        warnings.append(stored.left_out)
    if "delegationDepth" not in _raw_header(content):
        warnings.append("the header lacks delegationDepth: taken as 0")
    wanted = _session_id(header, session_id)
    upgraded = upgrade_events(stored.events, str(header["id"]))
    require_known_types(upgraded)
    events = tuple(_normal_event(normal, event) for event in upgraded)
    warnings += normal.warnings()
    own_header = header | {"id": wanted}
    return RecordedLog(wanted, own_header, events, tuple(warnings), _writer_id(events))


def plan_appends(log: RecordedLog) -> Iterator[AppendRequest]:
    """Give the appends that write the log, in order, each admitted in a trial run.

    The first one opens the session and the last one ends the load. Always the same for the same
    log: a killed import is resumed by sending them again. Raises CorruptLogError for an event
    that the sequencer would refuse.
    """
    groups = list(_groups(log.events)) or [()]
    state: SessionState | None = None
    for number, items in enumerate(groups):
        is_last = number == len(groups) - 1
        request = AppendRequest(
            session_id=log.session_id,
            writer_id=log.writer_id,
            epoch=0,
            append_seq=number,
            attempt=0,
            role="importer",
            items=items,
            open=Open(log.header, loading=not is_last) if is_last or number == 0 else None,
        )
        state = _try(state, request)
        yield request


def _try(state: SessionState | None, request: AppendRequest) -> SessionState:
    decision = admit(state, request, _DIGEST, topic_role_set=_ROLES, now=0)
    if isinstance(decision, Refused):
        before = 0 if state is None else state.next_seq
        items = request.items[: decision.event_index or 0]
        seq = before + sum(len(item) if isinstance(item, ChunkRun) else 1 for item in items)
        raise CorruptLogError(
            f"the event at seq {seq} cannot be in a log ({decision.code}): {decision.message}",
            seq=seq,
            refusal=decision.code,
        )
    assert isinstance(decision, Admitted)  # every append_seq is sent once
    state = SessionState.new(request.session_id) if state is None else state
    state.apply(replace(decision.batch, chain=_CHAIN))
    return state


def _groups(events: tuple[JsonObject, ...]) -> Iterator[tuple[Item, ...]]:
    """Cut the events into appends of a sensible size, their chunks packed."""
    remaining = iter(events)
    taken: list[JsonObject] = []
    size = 0
    for event in remaining:
        length = len(dumps(event))
        if taken and (len(taken) >= APPEND_EVENTS or size + length > APPEND_BYTES):
            yield pack_items(taken)
            taken, size = [], 0
        taken.append(event)
        size += length
    if taken:
        yield pack_items(taken)


class _Normalizer:
    """Makes events lossless, and counts what it had to change."""

    def __init__(self) -> None:
        self._zeros = 0
        self._surrogates = 0

    def header(self, header: JsonObject) -> JsonObject:
        """Return the session header. Raises CorruptLogError for one that says impossible things."""
        lossless = self._lossless(dict(header))
        # 0.0 was read as the version that it is.
        plain = lossless | {"version": FORMAT_VERSION}
        check_recorded_header(plain)
        return plain

    def event(self, event: JsonObject) -> JsonObject:
        """Return the event in the envelope's order. Raises AdmissionError `malformed`."""
        in_order: JsonObject = {name: event[name] for name in _ENVELOPE if name in event}
        lossless = self._lossless(in_order | event)
        # The log gives every event its seq anew, so a file may not say 1.0 for it.
        return lossless | {"seq": whole_member(lossless, "seq")}

    def _lossless(self, value: JsonObject) -> JsonObject:
        plain = self._without_negative_zero(value)
        check_lossless(plain)
        try:
            cleaned, replaced = replace_lone_surrogates(plain)
        except JsonTextError as error:
            raise AdmissionError("malformed", str(error)) from error
        self._surrogates += replaced
        assert isinstance(cleaned, dict)  # as it was
        return cleaned

    def warnings(self) -> Iterator[str]:
        if self._zeros:
            yield f"-0 is not lossless JSON: written as 0 in {self._zeros} places"
        if self._surrogates:
            yield f"{self._surrogates} lone surrogates became U+FFFD"

    def _without_negative_zero(self, event: JsonObject) -> JsonObject:
        """Replace -0 in place, however deep: `event` is not shared."""
        pending: list[JsonValue] = [event]
        while pending:
            holder = pending.pop()
            entries = holder.items() if isinstance(holder, dict) else enumerate(holder)  # type: ignore[arg-type]  # only holders are pending
            for key, value in list(entries):
                if isinstance(value, dict | list):
                    pending.append(value)
                elif isinstance(value, float) and value == 0 and str(value) == "-0.0":
                    holder[key] = 0  # type: ignore[index,call-overload]  # a key of this holder
                    self._zeros += 1
        return event


def _normal_event(normal: _Normalizer, event: JsonObject) -> JsonObject:
    """Normalize an event and check it as it stands in the file: in an append, a source of -1-i
    would be a citation."""
    try:
        normalized = normal.event(event)
        check_event(normalized)
        cited_seqs(normalized)
    except AdmissionError as error:
        raise CorruptLogError(
            f"the event at seq {event['seq']} breaks a rule ({error.refusal}): {error.message}",
            seq=event["seq"],
            refusal=error.refusal,
        ) from error
    return normalized


def _session_id(header: JsonObject, wanted: str | None) -> str:
    session_id = str(header["id"]) if wanted is None else wanted
    if not is_valid_id(session_id):
        raise AdmissionError(
            "malformed",
            f"{session_id[:140]!r} is no session id ({ID_PATTERN}): import it under another one",
        )
    return session_id


def _raw_header(content: bytes) -> JsonObject:
    line = lenient_loads(content[: content.index(b"\n")].decode())
    assert isinstance(line, dict)  # it was read as a header before
    return line


def _check_encoding(content: bytes) -> None:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise CorruptLogError(f"the file is not UTF-8 at byte {error.start}") from None


def _writer_id(events: tuple[JsonObject, ...]) -> str:
    digest = blake2b(digest_size=16)
    for event in events:
        digest.update(dumps(event).encode() + b"\n")
    return f"import-{digest.hexdigest()}"
