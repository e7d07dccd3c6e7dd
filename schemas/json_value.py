"""JSON values as Python holds them, and narrow accessors for values of unknown shape."""

from __future__ import annotations

from typing import Final, TypeAlias

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"


def is_int(value: object) -> bool:
    """True for an integer that is not a boolean (JSON keeps them apart, Python does not)."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """True for any number that is not a boolean."""
    return isinstance(value, int | float) and not isinstance(value, bool)


MAX_SAFE_INTEGER: Final = 2**53 - 1


def is_safe_integer(value: object) -> bool:
    """True for a whole number that every JSON reader holds exactly: at most 2^53 - 1 in size.

    JSON does not tell 1.0 from 1, so a float that is whole counts.
    """
    if isinstance(value, float):
        return value.is_integer() and abs(value) <= MAX_SAFE_INTEGER
    return is_int(value) and abs(value) <= MAX_SAFE_INTEGER  # type: ignore[arg-type]  # is_int narrows it


def is_count(value: object) -> bool:
    """True for a safe integer that is not negative: a seq, an index, a number of tokens."""
    return is_safe_integer(value) and value >= 0  # type: ignore[operator]  # a number by now


def member(value: JsonValue, key: str) -> JsonValue:
    """Return the member of an object, or None when the value is no object or lacks it."""
    return value.get(key) if isinstance(value, dict) else None


def says_null(value: JsonValue, key: str) -> bool:
    """True for an object that has null there; one that lacks the member says nothing."""
    return isinstance(value, dict) and key in value and value[key] is None


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


def whole_member(value: JsonValue, key: str) -> int | None:
    """Return a member that is a safe integer, whole floats included; None for anything else."""
    found = member(value, key)
    return int(found) if is_safe_integer(found) else None  # type: ignore[arg-type]  # a number
