"""The codec of the bus: records (DESIGN 3) to Avro in the Confluent wire format, and back.

A payload is a zero byte, the schema's id in the registry (4 bytes, big-endian) and the Avro
bytes. Ours are written with our own schemas; what is read is read with the schema that it was
written with, so that nothing in it is lost. Pure: ids and foreign schemas are passed in.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from surfacelog.schemas.avro_reader import ABSENT, ReaderCompiler
from surfacelog.schemas.avro_schema import AvroSchema, conforms, record_schema, without_docs
from surfacelog.schemas.avro_writer import Misfit, WriterCompiler
from surfacelog.schemas.chunk_runs import pack_items, unpack_items
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.json_text import JsonTextError, replace_in_text, replace_lone_surrogates
from surfacelog.schemas.records import (
    AppendRequest,
    ChunkRun,
    CompactionRequest,
    EventBatch,
    Expectation,
    Item,
    Open,
    Opened,
    Receipt,
    SeqRange,
    SessionSnapshot,
    SnapshotMarker,
)
from surfacelog.schemas.straight_records import batch_head, read_run_request, receipt_body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from surfacelog.schemas.avro_reader import Reader
    from surfacelog.schemas.avro_writer import Writer
    from surfacelog.schemas.json_value import JsonObject, JsonValue

__all__ = [
    "RECORD_NAMES",
    "Codec",
    "DecodeError",
    "DecodedRequest",
    "EncodeError",
    "WireSchemas",
    "offline_codec",
    "pack_items",
    "unpack_items",
]

RECORD_NAMES: Final = (
    "AppendRequest",
    "EventBatch",
    "Receipt",
    "SessionSnapshot",
    "SnapshotMarker",
    "CompactionRequest",
)
"""The records that have a subject in the registry."""

DIGEST_BYTES: Final = 8
_MAGIC: Final = b"\0"
_HEADER_BYTES: Final = 5


class DecodeError(SurfacelogError):
    """A payload is not a record of the bus: garbage, cut short, of an unknown schema, lying."""

    code = "malformed"


class EncodeError(SurfacelogError):
    """A record holds what neither Avro nor JSON can carry: NaN, -0, a number beyond 64 bits."""

    code = "malformed"


@dataclass(frozen=True, slots=True)
class WireSchemas:
    """The schemas to write with, by record name, their ids, and where foreign ones are found.

    `lookup` returns the parsed schema of an id. It raises DecodeError when nobody knows the id,
    and a ServiceError when the registry cannot be asked.
    """

    own: Mapping[str, dict[str, Any]]
    ids: Mapping[str, int]
    lookup: Callable[[int], AvroSchema]


@dataclass(frozen=True, slots=True)
class DecodedRequest:
    """A request as received.

    `digest` (8 bytes) covers its bytes, attempt aside, and recognizes a resend. `events` are
    the bytes that may stand in the batch as they are, None when they were written with another
    schema of events and must be encoded again.
    """

    request: AppendRequest
    digest: bytes
    events: bytes | None


class _Layout:
    """How to read the records of one schema."""

    def __init__(self, schema: dict[str, Any], own_events: AvroSchema) -> None:
        self.fields: list[tuple[str, Reader]] = ReaderCompiler().fields(schema)
        self.places = {name: place for place, (name, _) in enumerate(self.fields)}
        events = _events_type(schema)
        self.spliceable = (
            self.fields[-1][0] == "events"
            and events is not None
            and without_docs(events) == own_events
        )

    def span(self, name: str, ends: list[int]) -> tuple[int, int]:
        """Return where the bytes of a field begin and end."""
        place = self.places[name]
        return ends[place], ends[place + 1]


class _Decoded(NamedTuple):
    members: dict[str, Any]
    layout: _Layout
    ends: list[int]


class Codec:
    """Encodes and decodes every record of the bus.

    `replaced` counts the lone surrogates that became U+FFFD in what this codec encoded, because
    UTF-8 cannot carry them; a writer that sees it grow says so.
    """

    def __init__(self, schemas: WireSchemas) -> None:
        self._schemas = schemas
        self._layouts: dict[tuple[str, int], _Layout] = {}
        self._writers = {name: _head_writer(schema) for name, schema in schemas.own.items()}
        events = _events_type(schemas.own["EventBatch"])
        assert events is not None  # every batch has events
        self._write_items = WriterCompiler().value(events, {})
        self._own_events = without_docs(events)
        # Bytes 0 to 4 of the records that have a straight way, as long as their schema is ours.
        self._straight = {
            name: self._header(name)
            for name in ("AppendRequest", "EventBatch", "Receipt")
            if schemas.own[name] == record_schema(name)
        }
        self.replaced = 0

    def encode_request(self, request: AppendRequest) -> bytes:
        """Encode a request; its plain delta chunks travel as runs."""
        members = _given(request)
        if request.open is not None:
            header = self._without_surrogates(request.open.header)
            members["open"] = {"header": header, "loading": request.open.loading}
        if request.expect is not None:
            members["expect"] = _given(request.expect)
        return self._encode("AppendRequest", members) + self.encode_items(request.items)

    def decode_request(self, payload: bytes | None) -> DecodedRequest:
        """Decode a request. DecodeError unless every byte of it is accounted for."""
        if payload and payload[:_HEADER_BYTES] == self._straight.get("AppendRequest"):
            found = read_run_request(payload, _HEADER_BYTES)
            if found is not None:
                request, (start, end, events_at) = found
                return DecodedRequest(request, _digest(payload, start, end), payload[events_at:])
        members, layout, ends = self._decode("AppendRequest", payload)
        assert payload is not None  # else it was refused
        start, end = layout.span("attempt", ends)
        digest = _digest(payload, start, end)
        events = payload[layout.span("events", ends)[0] :] if layout.spliceable else None
        return DecodedRequest(_request(members), digest, events)

    def request_head(self, payload: bytes | None) -> AppendRequest | None:
        """Return a request without its events, or None when not even that can be read.

        For the answer to a record that is refused without decoding its events.
        """
        members: dict[str, Any] = {"events": []}
        try:
            layout = self._layout("AppendRequest", payload)
            assert payload is not None  # else it has no layout
            at = _HEADER_BYTES
            for member, read in layout.fields:
                if member == "events":
                    break
                value, at = read(payload, at)
                if value is not ABSENT:
                    members[member] = value
            return _request(members)
        except (ValueError, IndexError, TypeError, SurfacelogError):
            return None

    def encode_batch(self, batch: EventBatch, events: bytes | None = None) -> bytes:
        """Encode a batch. `events`, when given, are its items' bytes and are spliced."""
        if events is not None and "EventBatch" in self._straight:
            head = batch_head(batch)
            if head is not None:
                return self._straight["EventBatch"] + head + events
        members = _given(batch)
        if batch.opened is not None:
            members["opened"] = asdict(batch.opened)
        items = self.encode_items(batch.items) if events is None else events
        return self._encode("EventBatch", members) + items

    def decode_batch(self, payload: bytes | None) -> EventBatch:
        """Decode a batch: items have no seq, runs stay packed, citations stay as they travel."""
        members = self._decode("EventBatch", payload).members
        items = tuple(members.pop("events"))
        opened = members.pop("opened", None)
        known = _known(EventBatch, members)
        return EventBatch(**known, items=items, opened=opened and _opened(opened))

    def batch_events(self, payload: bytes) -> bytes:
        """Return the bytes of the events of a batch: what its chain covers."""
        decoded = self._decode("EventBatch", payload)
        start, end = decoded.layout.span("events", decoded.ends)
        return payload[start:end]

    def encode_items(self, items: Iterable[Item]) -> bytes:
        """Encode events and runs as the `events` of a request or batch."""
        packed = pack_items(items)
        try:
            return _written(self._write_items, packed)
        except UnicodeEncodeError:
            clean = tuple(map(self._clean_item, packed))
            return _written(self._write_items, clean)

    def encode_receipt(self, receipt: Receipt) -> bytes:
        """Encode a receipt."""
        if "Receipt" in self._straight:
            return self._straight["Receipt"] + receipt_body(receipt)
        return self._encode("Receipt", _given(receipt))

    def decode_receipt(self, payload: bytes | None) -> Receipt:
        """Decode a receipt."""
        members = self._decode("Receipt", payload).members
        return Receipt(**_known(Receipt, members))

    def encode_snapshot(self, snapshot: SessionSnapshot) -> bytes:
        """Encode one part of a session's snapshot."""
        return self._encode("SessionSnapshot", _given(snapshot))

    def decode_snapshot(self, payload: bytes | None) -> SessionSnapshot:
        """Decode one part of a session's snapshot."""
        members = self._decode("SessionSnapshot", payload).members
        return SessionSnapshot(**_known(SessionSnapshot, members))

    def encode_marker(self, marker: SnapshotMarker) -> bytes:
        """Encode a partition's snapshot marker."""
        return self._encode("SnapshotMarker", _given(marker))

    def decode_marker(self, payload: bytes | None) -> SnapshotMarker:
        """Decode a partition's snapshot marker."""
        members = self._decode("SnapshotMarker", payload).members
        return SnapshotMarker(**_known(SnapshotMarker, members))

    def encode_compaction(self, request: CompactionRequest) -> bytes:
        """Encode a wish for a compaction."""
        members = _given(request)
        if request.range is not None:
            members["range"] = asdict(request.range)
        return self._encode("CompactionRequest", members)

    def decode_compaction(self, payload: bytes | None) -> CompactionRequest:
        """Decode a wish for a compaction."""
        members = self._decode("CompactionRequest", payload).members
        span = members.pop("range", None)
        known = _known(CompactionRequest, members)
        return CompactionRequest(**known, range=span and SeqRange(span["start"], span["end"]))

    def _encode(self, name: str, members: dict[str, Any]) -> bytes:
        return self._header(name) + _written(self._writers[name], members)

    def _header(self, name: str) -> bytes:
        return _MAGIC + self._schemas.ids[name].to_bytes(4, "big")

    def _decode(self, name: str, payload: bytes | None) -> _Decoded:
        """Read a payload to its last byte, noting where each field ends."""
        layout = self._layout(name, payload)
        assert payload is not None  # else it has no layout
        at = _HEADER_BYTES
        members: dict[str, Any] = {}
        ends = [at]
        try:
            for member, read in layout.fields:
                value, at = read(payload, at)
                ends.append(at)
                if value is not ABSENT:
                    members[member] = value
        except (ValueError, IndexError) as error:
            raise DecodeError(f"{name} cannot be decoded: {error}") from error
        if at != len(payload):
            raise DecodeError(f"{name} of {len(payload)} bytes ends at byte {at}")
        return _Decoded(members, layout, ends)

    def _layout(self, name: str, payload: bytes | None) -> _Layout:
        if not payload or len(payload) < _HEADER_BYTES or payload[:1] != _MAGIC:
            raise DecodeError(f"no {name}: a payload begins with 0 and the id of its schema")
        schema_id = int.from_bytes(payload[1:_HEADER_BYTES], "big")
        layout = self._layouts.get((name, schema_id))
        if layout is None:
            layout = self._new_layout(name, schema_id)
            self._layouts[name, schema_id] = layout
        return layout

    def _new_layout(self, name: str, schema_id: int) -> _Layout:
        ours = self._schemas.own[name]
        if schema_id == self._schemas.ids[name]:
            return _Layout(ours, self._own_events)
        theirs = self._schemas.lookup(schema_id)
        try:
            if not isinstance(theirs, dict) or not conforms(theirs, ours):
                raise DecodeError(f"schema {schema_id} is not one of {name}")
            return _Layout(theirs, self._own_events)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise DecodeError(f"schema {schema_id} cannot be used: {error}") from error

    def _without_surrogates(self, value: JsonObject) -> JsonObject:
        try:
            clean, count = replace_lone_surrogates(value)
        except JsonTextError as error:
            raise EncodeError(str(error)) from error
        self.replaced += count
        return _object(clean)

    def _clean_item(self, item: Item) -> Item:
        if not isinstance(item, ChunkRun):
            return self._without_surrogates(item)
        return replace(
            item,
            deltas=tuple(map(self._clean_text, item.deltas)),
            call_id=item.call_id and self._clean_text(item.call_id),
            name=item.name and self._clean_text(item.name),
        )

    def _clean_text(self, text: str) -> str:
        clean, count = replace_in_text(text)
        self.replaced += count
        return clean


def offline_codec() -> Codec:
    """Return a codec without a registry: it knows our own schemas, under the ids 1 to 6."""

    def lookup(schema_id: int) -> AvroSchema:
        raise DecodeError(f"schema {schema_id} is unknown: there is no registry to ask")

    own = {name: record_schema(name) for name in RECORD_NAMES}
    ids = {name: number for number, name in enumerate(RECORD_NAMES, 1)}
    return Codec(WireSchemas(own, ids, lookup))


def _digest(payload: bytes, start: int, end: int) -> bytes:
    """Return the digest of a request but for its attempt, which lies between start and end."""
    received = payload[_HEADER_BYTES:start] + payload[end:]
    return blake2b(received, digest_size=DIGEST_BYTES).digest()


def _events_type(schema: dict[str, Any]) -> AvroSchema | None:
    return next((field["type"] for field in schema["fields"] if field["name"] == "events"), None)


def _head_writer(schema: dict[str, Any]) -> Writer:
    """Return the writer of a record up to its events, which are the last field where it has any."""
    head = [field for field in schema["fields"] if field["name"] != "events"]
    return WriterCompiler().value({**schema, "fields": head}, {})


def _written(write: Writer, value: object) -> bytes:
    out = bytearray()
    try:
        write(value, out)
    except (Misfit, OverflowError) as error:
        raise EncodeError("a record with a member of another type, or beyond 64 bits") from error
    except JsonTextError as error:
        raise EncodeError(f"an event that is not lossless JSON: {error}") from error
    return bytes(out)


def _given(record: Any) -> dict[str, Any]:
    """Return the fields of a record that are not None, by name; absent ones are not written."""
    return {
        name: value
        for name in record.__dataclass_fields__
        if (value := getattr(record, name)) is not None
    }


def _known(record: type[Any], members: dict[str, Any]) -> dict[str, Any]:
    """Return the members that a record of ours has; a newer schema may have given more."""
    return {name: members[name] for name in record.__dataclass_fields__ if name in members}


def _request(members: dict[str, Any]) -> AppendRequest:
    opening, expect = members.get("open"), members.get("expect")
    return AppendRequest(
        members["session_id"],
        members["writer_id"],
        members["epoch"],
        members["append_seq"],
        members["attempt"],
        members["role"],
        tuple(members["events"]),
        opening and Open(_object(opening["header"]), opening["loading"]),
        expect and Expectation(**_known(Expectation, expect)),
    )


def _opened(members: dict[str, Any]) -> Opened:
    return Opened(_object(members["header"]), members["epoch"], members["loading"])


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise DecodeError("a session header or an event that is no object")
    return value
