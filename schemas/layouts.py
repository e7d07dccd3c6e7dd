"""How a payload is laid out: found by the id of the schema that it was written with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from surfacelog.schemas.avro_reader import ReaderCompiler
from surfacelog.schemas.avro_schema import AvroSchema, conforms, without_docs
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.record_head import HeadFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from surfacelog.schemas.records import Item

MAGIC: Final = b"\0"
PREFIX_BYTES: Final = 5
"""The zero byte and the schema's id before each record: the Confluent wire format."""


class DecodeError(SurfacelogError):
    """A payload is not a record of the bus: garbage, cut short, of an unknown schema, lying."""

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


class Layout:
    """How to read the records of one schema, and whether its `events` can be passed on."""

    def __init__(self, schema: dict[str, Any], own_events: AvroSchema) -> None:
        # Compiling all fields also refuses what no record of the bus may have, such as recursion.
        name, self._read_last = ReaderCompiler().fields(schema)[-1]
        self._head = HeadFormat(schema)
        self.spliceable = name == "events" and without_docs(events_type(schema)) == own_events

    def head(self, payload: bytes) -> tuple[dict[str, Any], list[int]]:
        """Read all fields but the events, as `HeadFormat.read` does."""
        try:
            return self._head.read(payload, PREFIX_BYTES)
        except (ValueError, EOFError, IndexError) as error:
            raise DecodeError(f"a record that cannot be decoded: {error}") from error

    def items(self, payload: bytes, at: int) -> tuple[Item, ...]:
        """Read the events of a request or batch, which must end with the payload."""
        try:
            items, end = self._read_last(payload, at)
        except (ValueError, IndexError) as error:
            raise DecodeError(f"events that cannot be decoded: {error}") from error
        if end != len(payload):
            raise DecodeError(f"a record of {len(payload)} bytes whose events end at byte {end}")
        return tuple(items)


class Layouts:
    """The layouts of the schemas that were met so far."""

    def __init__(self, schemas: WireSchemas) -> None:
        self._schemas = schemas
        self._own_events = without_docs(events_type(schemas.own["EventBatch"]))
        self._found: dict[tuple[str, int], Layout] = {}

    def find(self, name: str, payload: bytes | None) -> Layout:
        """Return the layout of a payload that should be this record; DecodeError if it is not."""
        if not payload or len(payload) < PREFIX_BYTES or payload[:1] != MAGIC:
            raise DecodeError(f"no {name}: a payload begins with 0 and the id of its schema")
        schema_id = int.from_bytes(payload[1:PREFIX_BYTES], "big")
        layout = self._found.get((name, schema_id))
        if layout is None:
            layout = self._new(name, schema_id)
            self._found[name, schema_id] = layout
        return layout

    def _new(self, name: str, schema_id: int) -> Layout:
        ours = self._schemas.own[name]
        if schema_id == self._schemas.ids[name]:
            return Layout(ours, self._own_events)
        theirs = self._schemas.lookup(schema_id)
        try:
            if not isinstance(theirs, dict) or not conforms(theirs, ours):
                raise DecodeError(f"schema {schema_id} is not one of {name}")
            return Layout(theirs, self._own_events)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise DecodeError(f"schema {schema_id} cannot be used: {error}") from error


def events_type(schema: dict[str, Any]) -> AvroSchema:
    """Return the type of a record's last field, its events."""
    events: AvroSchema = schema["fields"][-1]["type"]
    return events
