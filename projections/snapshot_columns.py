"""Columns of a session snapshot: numbers as differences, digests in one text."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.schemas.json_value import JsonValue

DIGEST_BYTES: Final = 8


def differences(values: Iterable[int]) -> list[JsonValue]:
    """Return each value less the one before it; `itertools.accumulate` undoes it."""
    last = 0
    column: list[JsonValue] = []
    for value in values:
        column.append(value - last)
        last = value
    return column


def pack_digests(digests: Iterable[bytes]) -> str:
    """Return digests of DIGEST_BYTES each as one base64 text."""
    return b64encode(b"".join(digests)).decode()


def unpack_digests(text: str) -> list[bytes]:
    """Return the digests of `pack_digests`."""
    raw = b64decode(text)
    return [raw[i : i + DIGEST_BYTES] for i in range(0, len(raw), DIGEST_BYTES)]
