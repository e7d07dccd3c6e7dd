"""Equality of JSON values: key order aside, whole floats equal to integers, booleans apart.

Python calls True and 1 equal, and compares deep values recursively; JSON does neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonValue


def same_json(left: JsonValue, right: JsonValue) -> bool:
    """Return whether two values are the same JSON; any depth."""
    pending = [(left, right)]
    while pending:
        a, b = pending.pop()
        if isinstance(a, dict) and isinstance(b, dict):
            if a.keys() != b.keys():
                return False
            pending.extend((value, b[key]) for key, value in a.items())
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            pending.extend(zip(a, b, strict=True))
        elif not _same_scalar(a, b):
            return False
    return True


def _same_scalar(a: JsonValue, b: JsonValue) -> bool:
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (dict, list)) or isinstance(b, (dict, list)):
        return False
    return a == b
