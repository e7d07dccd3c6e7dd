"""A digest of JSON values that is equal exactly where `json_equal.same_json` says equal."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonValue


def json_digest(value: JsonValue, size: int = 8) -> bytes:
    """Return `size` bytes of BLAKE2b: key order aside, whole floats as integers; any depth.

    Every value is written with its kind and its length before its members, so that no two
    different values are written alike.
    """
    parts: list[str] = []
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            keys = sorted(current)
            parts.append(f"o{len(keys)}")
            parts.extend(_text(key) for key in keys)
            pending.extend(current[key] for key in keys)
        elif isinstance(current, list):
            parts.append(f"a{len(current)}")
            pending.extend(current)
        else:
            parts.append(_text(current) if isinstance(current, str) else _scalar(current))
    return blake2b("".join(parts).encode("utf-8", "surrogatepass"), digest_size=size).digest()


def _text(text: str) -> str:
    return f"s{len(text)}:{text}"


def _scalar(value: bool | float | None) -> str:
    if isinstance(value, float) and value.is_integer():
        return f"n{int(value)};"
    return f"n{value!r};"
