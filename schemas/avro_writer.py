"""Compile one of our Avro schemas into a function that writes JSON values as Avro bytes.

The counterpart of `avro_reader`. A value that does not fit its type exactly (null for an absent
member, a boolean for a number, a number beyond 64 bits) is a `Misfit`; the nearest union with an
extension branch then carries it as JSON text (DESIGN 3).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from surfacelog.schemas.avro_binary import (
    write_bytes,
    write_long,
    write_longs,
    write_text,
    write_texts,
)
from surfacelog.schemas.avro_schema import short_name
from surfacelog.schemas.json_text import dumps, loads
from surfacelog.schemas.packed_run import write_run
from surfacelog.schemas.records import ChunkRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from surfacelog.schemas.avro_schema import AvroSchema
    from surfacelog.schemas.json_value import JsonObject, JsonValue

Writer: TypeAlias = "Callable[[Any, bytearray], None]"
"""Appends one value to the bytes; raises Misfit or OverflowError when it does not fit."""

_FieldCompiler: TypeAlias = "Callable[[dict[str, Any]], Writer]"

_MAX_ORDERED: Final = 256
_LONG_NUMBER: Final = re.compile(r"[0-9]{309}")


class Misfit(Exception):  # noqa: N818  # an outcome that writers catch, never an error for users
    """A value is not exactly what its type says."""


class _Branch(NamedTuple):
    """A branch of a union: a writer that puts its number before the value, and its record."""

    write: Writer
    record: dict[str, Any]


class WriterCompiler:
    """Compiles the named records of one schema, each once."""

    def __init__(self) -> None:
        self._writers: dict[str, Writer] = {}
        self._records: dict[str, dict[str, Any]] = {}

    def value(self, schema: AvroSchema, field: dict[str, Any]) -> Writer:
        """Return the writer of a type; `field` gives the properties that its field has."""
        if isinstance(schema, list):
            return _choice(self._branches(schema, field, 0))
        if isinstance(schema, str):
            return self._named(schema, field)
        if schema["type"] == "array":
            return self._array(schema["items"], field)
        return self._record(schema)

    def _field(self, field: dict[str, Any]) -> Writer:
        """Return the writer of a field; it is given the object that may have the member."""
        name = _member(field)
        schema = field["type"]
        if isinstance(schema, list) and schema[0] == "null":
            branches = self._branches(schema[1:], field, 1)
            write = branches[0].write if len(branches) == 1 else _choice(branches)
            return _nullable(name, write) if "presence" in field else _optional(name, write)
        if field.get("encoding") == "flag":
            return _flag(name)
        return _required(name, self.value(schema, field))

    def _named(self, name: str, field: dict[str, Any]) -> Writer:
        if "const" in field:
            return _constant(field["const"], spelled=True)
        if field.get("encoding") == "json-text":
            return write_json
        return _PRIMITIVES.get(name) or self._writers[short_name(name)]

    def _array(self, items: AvroSchema, field: dict[str, Any]) -> Writer:
        if isinstance(items, str) and items in _COLUMNS:
            return _COLUMNS[items]
        return _items(self.value(items, field))

    def _branches(self, union: list[Any], field: dict[str, Any], first: int) -> list[_Branch]:
        branches = []
        for number, schema in enumerate(union, first):
            write = self.value(schema, field)
            name = schema.get("name", "") if isinstance(schema, dict) else schema
            record = self._records.get(short_name(name), {})
            branches.append(_Branch(_numbered(number, write), record))
        return branches

    def _record(self, record: dict[str, Any]) -> Writer:
        writer = self._shaped(record)
        name = short_name(record["name"])
        self._records[name] = record
        self._writers[name] = writer
        return writer

    def _shaped(self, record: dict[str, Any]) -> Writer:
        match record.get("shape"):
            case "event":
                return _event(self._object(record, {"data": self._data}))
            case "inline" | "envelope":
                only = record["fields"][0]
                return self.value(only["type"], only)
            case "constant":
                return _constant(record["json"], spelled=False)
            case "columns":
                return write_run
        return self._object(record, {})

    def _object(self, record: dict[str, Any], special: dict[str, _FieldCompiler]) -> Writer:
        fields = [field for field in record["fields"] if "role" not in field]
        writers = [special.get(field["name"], self._field)(field) for field in fields]
        write = _members(writers)
        if len(fields) == len(record["fields"]):
            return write
        roles = [field.get("role") for field in record["fields"][-2:]]
        assert roles == ["extra", "order"]  # they are written last, as our own files have them
        return _open_ended(write, [_member(field) for field in fields])

    def _data(self, field: dict[str, Any]) -> Writer:
        return _event_data(self._branches(field["type"], {}, 0))


def lossless_text(value: JsonValue) -> str:
    """Return a value as JSON text. JsonTextError when it is not lossless JSON (SEMANTICS 3)."""
    text = dumps(value)
    if "-0.0" in text or _LONG_NUMBER.search(text):
        loads(text)  # refuses -0, and integers that only Python has
    return text


def write_json(value: JsonValue, out: bytearray) -> None:
    """Write a value as JSON text, in the sense of `lossless_text`."""
    write_text(lossless_text(value), out)


def _member(field: dict[str, Any]) -> str:
    name: str = field.get("json", field["name"])
    return name


def _write_exact_long(value: object, out: bytearray) -> None:
    if type(value) is not int:
        raise Misfit
    write_long(value, out)


def _write_exact_text(value: object, out: bytearray) -> None:
    if not isinstance(value, str):
        raise Misfit
    write_text(value, out)


def _write_exact_boolean(value: object, out: bytearray) -> None:
    if not isinstance(value, bool):
        raise Misfit
    out.append(value)


def _write_exact_longs(values: object, out: bytearray) -> None:
    if not isinstance(values, list | tuple) or not {*map(type, values)} <= {int}:
        raise Misfit
    write_longs(values, out)


def _write_exact_texts(values: object, out: bytearray) -> None:
    if not isinstance(values, list | tuple) or not {*map(type, values)} <= {str}:
        raise Misfit
    write_texts(values, out)


_PRIMITIVES: Final[dict[str, Writer]] = {
    "boolean": _write_exact_boolean,
    "bytes": write_bytes,
    "long": _write_exact_long,
    "string": _write_exact_text,
}
_COLUMNS: Final[dict[str, Writer]] = {"long": _write_exact_longs, "string": _write_exact_texts}


def _constant(expected: JsonValue, *, spelled: bool) -> Writer:
    """Return the writer of the one value that fits; a record that stands for it has no bytes."""

    def write(value: object, out: bytearray) -> None:
        if value != expected:
            raise Misfit
        if spelled:
            _write_exact_text(expected, out)

    return write


def _numbered(number: int, write_value: Writer) -> Writer:
    def write(value: object, out: bytearray) -> None:
        out.append(number << 1)
        write_value(value, out)

    return write


def _items(write_item: Writer) -> Writer:
    def write(values: object, out: bytearray) -> None:
        if not isinstance(values, list | tuple):
            raise Misfit
        if values:
            write_long(len(values), out)
            for value in values:
                write_item(value, out)
        out.append(0)

    return write


def _required(name: str, write_value: Writer) -> Writer:
    def write(owner: JsonObject, out: bytearray) -> None:
        if name not in owner:
            raise Misfit
        write_value(owner[name], out)

    return write


def _optional(name: str, write_value: Writer) -> Writer:
    def write(owner: JsonObject, out: bytearray) -> None:
        if name in owner:
            write_value(owner[name], out)
        else:
            out.append(0)

    return write


def _nullable(name: str, write_value: Writer) -> Writer:
    def write(owner: JsonObject, out: bytearray) -> None:
        if name not in owner:
            raise Misfit
        if owner[name] is None:
            out.append(0)
        else:
            write_value(owner[name], out)

    return write


def _flag(name: str) -> Writer:
    def write(owner: JsonObject, out: bytearray) -> None:
        if name in owner and owner[name] is not True:
            raise Misfit
        out.append(name in owner)

    return write


def _members(writers: list[Writer]) -> Writer:
    def write(value: object, out: bytearray) -> None:
        if not isinstance(value, dict):
            raise Misfit
        for write_field in writers:
            write_field(value, out)

    return write


def _open_ended(write_members: Writer, names: list[str]) -> Writer:
    """Return a writer that adds what the record does not name, and an unusual member order."""

    def write(value: JsonObject, out: bytearray) -> None:
        write_members(value, out)
        keys = list(value)
        usual = [name for name in names if name in value]
        if keys == usual:
            out += b"\0\0"
            return
        extra = {key: member for key, member in value.items() if key not in names}
        if extra:
            out.append(2)
            write_json(extra, out)
        else:
            out.append(0)
        _write_order(keys, usual + list(extra), out)

    return write


def _write_order(keys: list[str], usual: list[str], out: bytearray) -> None:
    if keys == usual:
        out.append(0)
        return
    if len(keys) > _MAX_ORDERED:
        raise Misfit
    places = {key: place for place, key in enumerate(usual)}
    out.append(2)
    write_bytes(bytes(places[key] for key in keys), out)


def _choice(branches: list[_Branch]) -> Writer:
    """Return the writer of a union whose branches are told apart by their constant member."""
    shapes = {branch.record.get("shape"): branch.write for branch in branches}
    if "columns" in shapes:
        return _item(shapes["event"], shapes["columns"])
    fallback = next((b.write for b in branches if b.record.get("fallback")), _misfit)
    constants = {b.record["json"]: b.write for b in branches if b.record.get("shape") == "constant"}
    kinds: dict[object, Writer] = {}
    member = ""
    for branch in branches:
        for field in branch.record.get("fields", ()):
            if "const" in field:
                member = _member(field)
                kinds[field["const"]] = branch.write

    def write(value: object, out: bytearray) -> None:
        kind = value.get(member) if isinstance(value, dict) else None
        chosen = kinds.get(kind) if isinstance(kind, str) else None
        if isinstance(value, str):
            chosen = constants.get(value)
        _write_or(chosen, fallback, value, out)

    return write


def _misfit(_value: object, _out: bytearray) -> None:
    raise Misfit


def _write_or(chosen: Writer | None, fallback: Writer, value: object, out: bytearray) -> None:
    start = len(out)
    if chosen is not None:
        try:
            chosen(value, out)
        except (Misfit, OverflowError):
            del out[start:]
        else:
            return
    fallback(value, out)


def _item(write_event: Writer, write_run: Writer) -> Writer:
    def write(item: object, out: bytearray) -> None:
        chosen = write_run if isinstance(item, ChunkRun) else write_event
        chosen(item, out)

    return write


class _WholeEvent(NamedTuple):
    """Stands in the place of an event's data when the envelope does not fit."""

    event: JsonObject


def _event_data(branches: list[_Branch]) -> Writer:
    """Return the writer of an event's data; the event's type chooses the branch."""
    typed = {branch.record.get("event"): branch.write for branch in branches}
    fallback = next(b.write for b in branches if b.record.get("fallback"))
    whole = next(b.write for b in branches if b.record.get("shape") == "envelope")

    def write(event: dict[str, Any], out: bytearray) -> None:
        if "data" not in event:
            raise Misfit
        data = event["data"]
        if isinstance(data, _WholeEvent):
            whole(data.event, out)
        else:
            _write_or(typed.get(event["type"]), fallback, data, out)

    return write


def _event(write_members: Writer) -> Writer:
    def write(event: JsonObject, out: bytearray) -> None:
        start = len(out)
        try:
            write_members(event, out)
        except (Misfit, OverflowError):
            del out[start:]
            kind = event.get("type") if isinstance(event, dict) else None
            name = kind if isinstance(kind, str) else ""
            write_members({"type": name, "time": 0, "data": _WholeEvent(event)}, out)

    return write
