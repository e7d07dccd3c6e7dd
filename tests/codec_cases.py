"""Events and batches for the tests of the codec, and an independent reader of what it writes."""

from __future__ import annotations

import io
import lzma
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro

from surfacelog.schemas.avro_schema import record_schema
from surfacelog.schemas.codec import Codec, unpack_items
from surfacelog.schemas.json_text import JsonTextError, dumps, loads
from surfacelog.schemas.jsonl import read_log
from surfacelog.schemas.records import EventBatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import Item

DATA = Path(__file__).parent / "data"
RECORDINGS = sorted(DATA.glob("recordings/*.jsonl"))
_BATCH_SCHEMA = fastavro.parse_schema(record_schema("EventBatch"))


def recorded_events(path: Path) -> list[JsonObject]:
    """Return the events of a recording, its packed rows unpacked."""
    return read_log(path.read_bytes(), default_depth=True).events


def vector_events() -> Iterator[JsonObject]:
    """Yield the objects among the events of the reference cases that are lossless JSON."""
    for path in sorted(DATA.glob("vectors/*.jsonl.xz")):
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield from _case_events(line)


def _case_events(line: str) -> list[JsonObject]:
    case: Any = loads(line)
    events = case["case"].get("events", [])
    if "eventsText" in case["case"]:
        try:
            events = loads(case["case"]["eventsText"])
        except JsonTextError:
            return []  # spelled with -0 or 1e400: not lossless JSON
    return [event for event in events if isinstance(event, dict)]


def batch_of(items: Iterable[Item], first_seq: int = 0) -> EventBatch:
    """Return a batch with the given items and something in every other field."""
    return EventBatch(
        session_id="session-1",
        first_seq=first_seq,
        writer_id="writer-1",
        append_seq=3,
        role="owner",
        epoch=2,
        admitted_at=1_700_000_000_000,
        request_digest=b"digest..",
        chain=b"chain...........",
        items=tuple(items),
    )


def through_avro(codec: Codec, events: list[JsonObject]) -> list[JsonObject]:
    """Return the events after a journey as one batch, numbered from 0."""
    batch = codec.decode_batch(codec.encode_batch(batch_of(events)))
    return list(unpack_items(batch.items, 0))


def spelled(events: Iterable[JsonObject]) -> list[str]:
    """Return the JSON text of each event: what shows order, number types and values at once."""
    return [dumps(event) for event in events]


def read_by_fastavro(payload: bytes) -> dict[str, Any]:
    """Decode a batch with fastavro; records in unions come with their names."""
    stream = io.BytesIO(payload[5:])
    record: Any = fastavro.schemaless_reader(
        stream, _BATCH_SCHEMA, reader_schema=None, return_record_name=True
    )
    assert not stream.read()
    return dict(record)


def write_by_fastavro(record: dict[str, Any]) -> bytes:
    """Encode what `read_by_fastavro` returned; the 5 bytes before it are not included."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, _BATCH_SCHEMA, record)
    return stream.getvalue()
