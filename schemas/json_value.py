"""JSON values as Python holds them, and narrow accessors for values of unknown shape."""

from __future__ import annotations

from typing import TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"


def is_int(value: object) -> bool:
    """True for an integer that is not a boolean (JSON keeps them apart, Python does not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def member(value: JsonValue, key: str) -> JsonValue:
    """Return the member of an object, or None when the value is no object or lacks it."""
    return value.get(key) if isinstance(value, dict) else None


def object_member(value: JsonValue, key: str) -> JsonObject:
    """Return a member that is an object; an empty one when it is missing or something else."""
    found = member(value, key)
    return found if isinstance(found, dict) else {}


def list_member(value: JsonValue, key: str) -> list[JsonValue]:
    """Return a member that is a list; an empty one when it is missing or something else."""
    found = member(value, key)
    return found if isinstance(found, list) else []


def text_member(value: JsonValue, key: str) -> str | None:
    """Return a member that is a string; None when it is missing or something else."""
    found = member(value, key)
    return found if isinstance(found, str) else None


def int_member(value: JsonValue, key: str) -> int | None:
    """Return a member that is an integer; None when it is missing or something else."""
    found = member(value, key)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
