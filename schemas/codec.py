"""The codec of the bus: records (DESIGN 3) to Avro in the Confluent wire format, and back.

A payload is a zero byte, the schema's id in the registry (4 bytes, big-endian) and the Avro
bytes. Ours are written with our own schemas; what is read is read with the schema that it was
written with, so that nothing in it is lost. Pure: ids and foreign schemas are passed in.
"""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from surfacelog.schemas.avro_reader import json_value
from surfacelog.schemas.avro_schema import AvroSchema, record_schema
from surfacelog.schemas.avro_writer import Misfit, WriterCompiler, lossless_text
from surfacelog.schemas.chunk_runs import pack_items, unpack_items
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.json_text import JsonTextError, replace_in_text, replace_lone_surrogates
from surfacelog.schemas.layouts import (
    MAGIC,
    PREFIX_BYTES,
    DecodeError,
    Layout,
    Layouts,
    WireSchemas,
    events_type,
)
from surfacelog.schemas.record_head import HeadFormat
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
from surfacelog.schemas.straight_records import (
    STRAIGHT_WRITERS,
    RequestHead,
    read_request_head,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

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


class EncodeError(SurfacelogError):
    """A record holds what neither Avro nor JSON can carry: NaN, -0, a number beyond 64 bits."""

    code = "malformed"


class DecodedRequest(NamedTuple):
    """A request as received.

    `digest` (8 bytes) covers its bytes, attempt aside, and recognizes a resend. `events` are
    the bytes that may stand in the batch as they are, None when they were written with another
    schema of events and must be encoded again.
    """

    request: AppendRequest
    digest: bytes
    events: bytes | None


class Codec:
    """Encodes and decodes every record of the bus.

    `replaced` counts the lone surrogates that became U+FFFD in what this codec encoded, because
    UTF-8 cannot carry them; a writer that sees it grow says so. `schemas` is what it was made of.
    """

    def __init__(self, schemas: WireSchemas) -> None:
        self.schemas = schemas
        self._layouts = Layouts(schemas)
        self._heads = {name: HeadFormat(schema) for name, schema in schemas.own.items()}
        self._write_items = WriterCompiler().value(events_type(schemas.own["EventBatch"]), {})
        self._prefixes = {name: MAGIC + ids.to_bytes(4, "big") for name, ids in schemas.ids.items()}
        # The straight ways are for the schemas that this code was written with.
        self._straight = {
            name: write
            for name, write in STRAIGHT_WRITERS.items()
            if schemas.own[name] == record_schema(name)
        }
        self._reads_straight = schemas.own["AppendRequest"] == record_schema("AppendRequest")
        self.replaced = 0

    def encode_request(self, request: AppendRequest) -> bytes:
        """Encode a request; its plain delta chunks travel as runs."""
        head = request
        if request.open is not None:
            header = self._without_surrogates(request.open.header)
            head = replace(request, open=Open(header, request.open.loading))
        return self._encode("AppendRequest", head) + self.encode_items(request.items)

    def decode_request(self, payload: bytes | None) -> DecodedRequest:
        """Decode a request. DecodeError unless every byte of it is accounted for."""
        layout = self._layouts.find("AppendRequest", payload)
        assert payload is not None  # else it has no layout
        request, attempt_at, attempt_end, at = self._request_head(layout, payload)
        request.items = layout.items(payload, at)
        # The attempt aside: the digest must recognize a resend.
        received = payload[PREFIX_BYTES:attempt_at] + payload[attempt_end:]
        digest = blake2b(received, digest_size=DIGEST_BYTES).digest()
        return DecodedRequest(request, digest, payload[at:] if layout.spliceable else None)

    def request_head(self, payload: bytes | None) -> AppendRequest | None:
        """Return a request without its events, or None when not even that can be read.

        For the answer to a record that is refused without decoding its events.
        """
        try:
            layout = self._layouts.find("AppendRequest", payload)
            assert payload is not None  # else it has no layout
            return self._request_head(layout, payload).request
        except SurfacelogError:
            return None

    def encode_batch(self, batch: EventBatch, events: bytes | None = None) -> bytes:
        """Encode a batch. `events`, when given, are its items' bytes and are spliced."""
        items = self.encode_items(batch.items) if events is None else events
        return self._encode("EventBatch", batch) + items

    def decode_batch(self, payload: bytes | None) -> EventBatch:
        """Decode a batch: items have no seq, runs stay packed, citations stay as they travel."""
        layout, members, at = self._read("EventBatch", payload)
        assert payload is not None  # else it has no layout
        items = layout.items(payload, at)
        opened = members.pop("opened", None)
        known = _known(EventBatch, members)
        return EventBatch(**known, items=items, opened=opened and _opened(opened))

    def batch_events(self, payload: bytes) -> bytes:
        """Return the bytes of the events of a batch: what its chain covers."""
        _, _, at = self._read("EventBatch", payload)
        return payload[at:]

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
        return self._encode("Receipt", receipt)

    def decode_receipt(self, payload: bytes | None) -> Receipt:
        """Decode a receipt."""
        return Receipt(**_known(Receipt, self._whole("Receipt", payload)))

    def encode_snapshot(self, snapshot: SessionSnapshot) -> bytes:
        """Encode one part of a session's snapshot."""
        return self._encode("SessionSnapshot", snapshot)

    def decode_snapshot(self, payload: bytes | None) -> SessionSnapshot:
        """Decode one part of a session's snapshot."""
        return SessionSnapshot(**_known(SessionSnapshot, self._whole("SessionSnapshot", payload)))

    def encode_marker(self, marker: SnapshotMarker) -> bytes:
        """Encode a partition's snapshot marker."""
        return self._encode("SnapshotMarker", marker)

    def decode_marker(self, payload: bytes | None) -> SnapshotMarker:
        """Decode a partition's snapshot marker."""
        return SnapshotMarker(**_known(SnapshotMarker, self._whole("SnapshotMarker", payload)))

    def encode_compaction(self, request: CompactionRequest) -> bytes:
        """Encode a wish for a compaction."""
        return self._encode("CompactionRequest", request)

    def decode_compaction(self, payload: bytes | None) -> CompactionRequest:
        """Decode a wish for a compaction."""
        members = self._whole("CompactionRequest", payload)
        span = members.pop("range", None)
        known = _known(CompactionRequest, members)
        return CompactionRequest(**known, range=span and SeqRange(span["start"], span["end"]))

    def _encode(self, name: str, record: object) -> bytes:
        """Encode a record, but for its events."""
        straight = self._straight.get(name)
        try:
            head = None if straight is None else straight(record)
            if head is None:
                head = self._heads[name].write(_given(record))
        except (TypeError, ValueError, OverflowError) as error:
            raise EncodeError(f"{name} with a member that does not fit: {error}") from error
        return self._prefixes[name] + head

    def _request_head(self, layout: Layout, payload: bytes) -> RequestHead:
        if self._reads_straight and payload.startswith(self._prefixes["AppendRequest"]):
            head = read_request_head(payload, PREFIX_BYTES)
            if head is not None:
                return head
        members, ends = layout.head(payload)
        return RequestHead(_request(members), *ends)

    def _read(self, name: str, payload: bytes | None) -> tuple[Layout, dict[str, Any], int]:
        """Read a record up to its events, and return where they begin."""
        layout = self._layouts.find(name, payload)
        assert payload is not None  # else it has no layout
        members, ends = layout.head(payload)
        return layout, members, ends[-1]

    def _whole(self, name: str, payload: bytes | None) -> dict[str, Any]:
        """Read a record that has no events."""
        _, members, end = self._read(name, payload)
        assert payload is not None  # else it has no layout
        if end != len(payload):
            raise DecodeError(f"{name} of {len(payload)} bytes ends at byte {end}")
        return members

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


def _written(write: Writer, value: object) -> bytes:
    out = bytearray()
    try:
        write(value, out)
    except (Misfit, OverflowError) as error:
        raise EncodeError("an event with a member of another type, or beyond 64 bits") from error
    except JsonTextError as error:
        raise EncodeError(f"an event that is not lossless JSON: {error}") from error
    return bytes(out)


def _given(record: Any) -> dict[str, Any]:
    """Return a record as fastavro writes it: its fields, and in them records and JSON texts."""
    members = {name: getattr(record, name) for name in record.__dataclass_fields__}
    for name, value in members.items():
        if is_dataclass(value):
            members[name] = _given(value)
        elif isinstance(value, dict):
            members[name] = lossless_text(value)
    return members


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
        (),
        opening and Open(_header(opening), opening["loading"]),
        expect and Expectation(**_known(Expectation, expect)),
    )


def _opened(members: dict[str, Any]) -> Opened:
    return Opened(_header(members), members["epoch"], members["loading"])


def _header(members: dict[str, Any]) -> JsonObject:
    try:
        return _object(json_value(members["header"]))
    except JsonTextError as error:
        raise DecodeError(f"a session header that is not lossless JSON: {error}") from error


def _object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise DecodeError("a session header or an event that is no object")
    return value
