"""Compile an Avro schema into a function that reads JSON values from Avro bytes.

The schema itself says how a record maps to JSON (DESIGN 3, the properties are listed in
`avro/README.md`), so a record written with a newer schema than ours reads losslessly with its
own schema, and no version of this code needs to know its fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from surfacelog.schemas.avro_binary import (
    read_boolean,
    read_bytes,
    read_long,
    read_longs,
    read_size,
    read_text,
    read_texts,
)
from surfacelog.schemas.avro_schema import short_name
from surfacelog.schemas.json_text import has_lone_surrogates, loads
from surfacelog.schemas.packed_run import RUN_FIELDS, read_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from surfacelog.schemas.avro_schema import AvroSchema
    from surfacelog.schemas.json_value import JsonValue

Reader: TypeAlias = "Callable[[bytes, int], tuple[Any, int]]"
"""Reads one value at a position. ValueError or IndexError when the bytes are not one."""

_FieldCompiler: TypeAlias = "Callable[[dict[str, Any]], Reader]"

ABSENT: Final[Any] = object()
_EXTRA: Final[Any] = object()
_ORDER: Final[Any] = object()
_ENVELOPE: Final = "(envelope)"
_ROLES: Final[dict[str, Any]] = {"extra": _EXTRA, "order": _ORDER}
_PRIMITIVES: Final[dict[str, Reader]] = {
    "boolean": read_boolean,
    "bytes": read_bytes,
    "long": read_long,
    "string": read_text,
}
_COLUMNS: Final[dict[str, Reader]] = {"long": read_longs, "string": read_texts}


class UnreadableSchemaError(ValueError):
    """A schema has what none of the bus has: recursion, doubles, enums, maps, empty items."""


class ReaderCompiler:
    """Compiles the named records of one schema, each once.

    Records nest only as deep as the schema does, because a record that contains itself is
    refused: hostile bytes cannot exhaust the stack. Items of arrays take at least one byte, so
    they cannot claim more memory than their bytes are worth.
    """

    def __init__(self) -> None:
        self._readers: dict[str, Reader] = {}
        self._records: dict[str, dict[str, Any]] = {}

    def fields(self, record: dict[str, Any]) -> list[tuple[Any, Reader]]:
        """Return the JSON member name (or the role) and the reader of each field of a record."""
        return [(_member(field), self.field(field)) for field in record["fields"]]

    def field(self, field: dict[str, Any]) -> Reader:
        """Return the reader of a field: a value, or the mark of an absent member."""
        schema = field["type"]
        if isinstance(schema, list) and schema[0] == "null":
            nothing = None if field.get("presence") == "required" else ABSENT
            return _optional([self._value(branch, field) for branch in schema[1:]], nothing)
        if "const" in field:
            return _constant_text(field["const"])
        return self._value(schema, field)

    def _value(self, schema: AvroSchema, field: dict[str, Any]) -> Reader:
        if isinstance(schema, list):
            return _union([self._value(branch, field) for branch in schema])
        if isinstance(schema, str):
            return self._named(schema, field)
        if schema["type"] == "record":
            return self._record(schema)
        if schema["type"] == "array":
            return self._array(schema["items"], field)
        return self._named(schema["type"], field)

    def _named(self, name: str, field: dict[str, Any]) -> Reader:
        if name == "string" and field.get("encoding") == "json-text":
            return read_json
        if name == "boolean" and field.get("encoding") == "flag":
            return _read_flag
        reader = _PRIMITIVES.get(name) or self._readers.get(short_name(name))
        if reader is None:
            raise UnreadableSchemaError(f"type {name} is unknown here, or contains itself")
        return reader

    def _array(self, items: AvroSchema, field: dict[str, Any]) -> Reader:
        if isinstance(items, str) and items in _COLUMNS and "encoding" not in field:
            return _COLUMNS[items]
        reader = self._value(items, field)
        if self._is_empty(items):
            raise UnreadableSchemaError("an array of items without bytes")
        return _items(reader)

    def _is_empty(self, schema: AvroSchema) -> bool:
        if isinstance(schema, list):
            return False
        name = schema if isinstance(schema, str) else schema.get("name", "")
        record = self._records.get(short_name(name))
        return record is not None and all(self._is_empty(f["type"]) for f in record["fields"])

    def _record(self, record: dict[str, Any]) -> Reader:
        reader = self._shaped(record)
        name = short_name(record["name"])
        # Only a complete record can be used by name: one that contains itself stays unknown.
        self._records[name] = record
        self._readers[name] = reader
        return reader

    def _shaped(self, record: dict[str, Any]) -> Reader:
        match record.get("shape"):
            case "event":
                return _event(self._object(record, {"data": self._data}))
            case "inline" | "envelope":
                return self.field(record["fields"][0])
            case "constant":
                return _constant(record["json"])
            case "columns":
                if [field["name"] for field in record["fields"]] != [*RUN_FIELDS]:
                    raise UnreadableSchemaError("another ChunkRun than the one that never changes")
                return read_run
        return self._object(record, {})

    def _object(self, record: dict[str, Any], special: dict[str, _FieldCompiler]) -> Reader:
        fields = record["fields"]
        readers = [special.get(field["name"], self.field)(field) for field in fields]
        return _object(list(zip(map(_member, fields), readers, strict=True)))

    def _data(self, field: dict[str, Any]) -> Reader:
        """Return the reader of an event's data, which tells the type that the record stands for."""
        readers = [self._value(branch, {}) for branch in field["type"]]
        records = [self._records[_branch_name(branch)] for branch in field["type"]]
        return _tagged([_tag(record) for record in records], readers)


def read_json(buffer: bytes, at: int) -> tuple[JsonValue, int]:
    """Read a JSON value that travels as text; lone surrogates are refused (DESIGN 3)."""
    text, at = read_text(buffer, at)
    return json_value(text), at


def json_value(text: str) -> JsonValue:
    """Return the value of a JSON text that travelled. ValueError when it is not lossless."""
    value = loads(text)
    if "\\u" in text and has_lone_surrogates(value):
        raise ValueError("a JSON text with a lone surrogate")
    return value


def _member(field: dict[str, Any]) -> Any:
    return _ROLES.get(field.get("role", "")) or field.get("json", field["name"])


def _branch_name(branch: AvroSchema) -> str:
    return short_name(branch["name"] if isinstance(branch, dict) else str(branch))


def _tag(record: dict[str, Any]) -> str | None:
    return _ENVELOPE if record.get("shape") == "envelope" else record.get("event")


def _read_flag(buffer: bytes, at: int) -> tuple[Any, int]:
    given, at = read_boolean(buffer, at)
    return (True if given else ABSENT), at


def _constant_text(expected: str) -> Reader:
    def read(buffer: bytes, at: int) -> tuple[str, int]:
        text, at = read_text(buffer, at)
        if text != expected:
            raise ValueError(f"{text[:40]!r} where a record is of kind {expected!r}")
        return expected, at

    return read


def _constant(value: object) -> Reader:
    def read(_buffer: bytes, at: int) -> tuple[object, int]:
        return value, at

    return read


def _optional(readers: list[Reader], nothing: object) -> Reader:
    read_branch = _union([_constant(nothing), *readers])
    first = readers[0]

    def read(buffer: bytes, at: int) -> tuple[Any, int]:
        code = buffer[at]
        if not code:
            return nothing, at + 1
        return first(buffer, at + 1) if code == 2 else read_branch(buffer, at)

    return read


def _union(readers: list[Reader]) -> Reader:
    def read(buffer: bytes, at: int) -> tuple[Any, int]:
        code = buffer[at]
        if code & 129:  # negative, or beyond any union of ours
            raise ValueError("no such branch of a union")
        return readers[code >> 1](buffer, at + 1)

    return read


def _tagged(tags: list[str | None], readers: list[Reader]) -> Reader:
    def read(buffer: bytes, at: int) -> tuple[Any, int]:
        tag = tags[buffer[at] >> 1]
        value, at = read_branch(buffer, at)
        return (tag, value), at

    read_branch = _union(readers)
    return read


def _items(read_item: Reader) -> Reader:
    def read(buffer: bytes, at: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while True:
            count, at = read_size(buffer, at)
            if not count:
                return values, at
            for _ in range(count):
                value, at = read_item(buffer, at)
                values.append(value)

    return read


def _object(fields: list[tuple[Any, Reader]]) -> Reader:
    names = frozenset(name for name, _ in fields)

    def read(buffer: bytes, at: int) -> tuple[dict[Any, Any], int]:
        members = {}
        for name, reader in fields:
            value, at = reader(buffer, at)
            if value is not ABSENT:
                members[name] = value
        if _EXTRA in members or _ORDER in members:
            members = _completed(members, names)
        return members, at

    return read


def _completed(members: dict[Any, Any], names: frozenset[Any]) -> dict[str, Any]:
    """Return the members with those of `extra`, in the order that `order` gives."""
    extra = members.pop(_EXTRA, {})
    order = members.pop(_ORDER, None)
    if not isinstance(extra, dict) or not names.isdisjoint(extra):
        raise ValueError("extra members that are no object, or that the record names itself")
    members |= extra
    if order is None:
        return members
    keys = list(members)
    if sorted(order) != list(range(len(keys))):
        raise ValueError("an order of members that is no permutation of them")
    return {keys[index]: members[keys[index]] for index in order}


def _event(read_members: Reader) -> Reader:
    def read(buffer: bytes, at: int) -> tuple[dict[str, Any], int]:
        event, at = read_members(buffer, at)
        tag, data = event["data"]
        if tag is _ENVELOPE:
            if not isinstance(data, dict):
                raise ValueError("an event that is no object")
            return data, at
        if tag is not None and tag != event["type"]:
            raise ValueError(f"data of {tag} in an event of type {event['type'][:80]!r}")
        event["data"] = data
        return event, at

    return read
