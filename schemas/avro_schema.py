"""The Avro schemas of the bus (DESIGN 3): read from `avro/*.avsc`, each made self-contained.

The files define named records and refer to each other by name. What is registered is one
document a record, with every definition written out where it is first used, so that a consumer
needs nothing but the registry.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any, Final, TypeAlias

AvroSchema: TypeAlias = "str | list[Any] | dict[str, Any]"
"""A parsed schema: a type name, a union, or a complex type."""

NAMESPACE: Final = "surfacelog"
PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)


def record_schema(name: str) -> dict[str, Any]:
    """Return the self-contained schema of one of our records. KeyError for an unknown name."""
    written: set[str] = set()
    schema = _written_out(name, written)
    assert isinstance(schema, dict)  # a name that was not seen before is written out
    return schema


def schema_text(schema: AvroSchema) -> str:
    """Return the text under which a schema is registered and compared."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


@cache
def _definitions() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for file in sorted(files(__package__).joinpath("avro").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".avsc"):
            found |= {each["name"]: each for each in json.loads(file.read_text("utf-8"))}
    return found


def _written_out(schema: AvroSchema, written: set[str]) -> AvroSchema:
    if isinstance(schema, list):
        return [_written_out(branch, written) for branch in schema]
    if isinstance(schema, str):
        if schema in PRIMITIVES or schema in written:
            return schema
        written.add(schema)
        record = _definitions()[schema]
        fields = [{**f, "type": _written_out(f["type"], written)} for f in record["fields"]]
        return {**record, "fields": fields}
    return {**schema, "items": _written_out(schema["items"], written)}


def without_docs(schema: AvroSchema) -> AvroSchema:
    """Return a schema without its comments: two that are equal then mean the same bytes."""
    if isinstance(schema, list):
        return [without_docs(branch) for branch in schema]
    if isinstance(schema, str):
        return short_name(schema)
    kept = {key: value for key, value in schema.items() if key not in ("doc", "namespace")}
    if "fields" in schema:
        kept["fields"] = [
            {**_without(field, "doc"), "type": without_docs(field["type"])}
            for field in schema["fields"]
        ]
    if "items" in schema:
        kept["items"] = without_docs(schema["items"])
    return kept


def conforms(theirs: AvroSchema, ours: AvroSchema) -> bool:
    """Return whether values of `theirs` have every member of `ours`, with its type.

    True for every schema that the registry's FULL_TRANSITIVE admits after ours: a record may
    have more fields, and may lack an optional one.
    """
    return _Conformance(_named_records(theirs), _named_records(ours)).of(theirs, ours)


def short_name(name: str) -> str:
    """Return a type's name without its namespace: all types of the bus share one."""
    return name.rpartition(".")[2]


class _Conformance:
    def __init__(self, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
        self._theirs = theirs
        self._ours = ours
        self._compared: set[str] = set()

    def of(self, theirs: AvroSchema, ours: AvroSchema) -> bool:
        theirs, ours = self._found(theirs, self._theirs), self._found(ours, self._ours)
        if isinstance(theirs, list) and isinstance(ours, list):
            return len(theirs) == len(ours) and all(map(self.of, theirs, ours))
        if isinstance(theirs, dict) and isinstance(ours, dict):
            if theirs["type"] != ours["type"]:
                return False
            return self._record(theirs, ours) if "fields" in ours else self._items(theirs, ours)
        return theirs == ours

    def _found(self, schema: AvroSchema, records: dict[str, Any]) -> AvroSchema:
        if isinstance(schema, dict) and schema["type"] in PRIMITIVES:
            return str(schema["type"])
        return records.get(short_name(schema), schema) if isinstance(schema, str) else schema

    def _items(self, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
        return self.of(theirs["items"], ours["items"])

    def _record(self, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
        name = short_name(ours["name"])
        if short_name(theirs["name"]) != name or theirs.get("shape") != ours.get("shape"):
            return False
        if name in self._compared:
            return True
        self._compared.add(name)
        found = {field["name"]: field for field in theirs["fields"]}
        return all(
            self._field(found[field["name"]], field)
            if field["name"] in found
            else "default" in field
            for field in ours["fields"]
        )

    def _field(self, theirs: dict[str, Any], ours: dict[str, Any]) -> bool:
        properties = [_without(field, "doc", "type", "default") for field in (theirs, ours)]
        return properties[0] == properties[1] and self.of(theirs["type"], ours["type"])


def _without(field: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in field.items() if key not in names}


def _named_records(schema: AvroSchema) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    waiting: list[AvroSchema] = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting += each
        elif isinstance(each, dict):
            waiting += [field["type"] for field in each.get("fields", ())]
            waiting += [each["items"]] if "items" in each else []
            if "fields" in each:
                found[short_name(each["name"])] = each
    return found
