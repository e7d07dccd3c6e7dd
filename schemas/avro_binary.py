"""Avro's binary primitives, strict enough that accepted bytes may be passed on as they are.

Readers take a buffer and a position and return the value and the next position. They read past
the end without noticing at once: the next one-byte read raises IndexError, and whoever reads a
whole record compares the last position with the length. A negative block count (which hides a
size that nobody checks), an overlong number and a negative length raise ValueError, so every
loop ends with the bytes, however large a count claims to be.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONG_LIMIT: Final = 1 << 63
_LAST_SHIFT: Final = 63
# Values of one-byte numbers, and the bytes of the small values that most columns hold.
_SMALL: Final = tuple((code >> 1) ^ -(code & 1) for code in range(128))
# The same as signed bytes, for a column of them at once.
_SMALL_COLUMN: Final = bytes(_SMALL[code & 127] & 255 for code in range(256))
_SMALL_CODES: Final = {value: code for code, value in enumerate(_SMALL)}


def read_long(buffer: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag number of 64 bits."""
    code = buffer[at]
    if code < 128:
        return _SMALL[code], at + 1
    return _read_wide(buffer, at)


def _read_wide(buffer: bytes, at: int) -> tuple[int, int]:
    code = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        code |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > _LAST_SHIFT:
            raise ValueError("a number of more than 64 bits")
    if not byte or code >> 64:
        raise ValueError("a number that is spelled too long")
    return (code >> 1) ^ -(code & 1), at


def read_size(buffer: bytes, at: int) -> tuple[int, int]:
    """Read a length or a block count; both are refused when negative."""
    size, at = read_long(buffer, at)
    if size < 0:
        raise ValueError("a negative length or block count")
    return size, at


def read_bytes(buffer: bytes, at: int) -> tuple[bytes, int]:
    """Read a byte string."""
    size, at = read_size(buffer, at)
    return buffer[at : at + size], at + size


def read_text(buffer: bytes, at: int) -> tuple[str, int]:
    """Read a string; UnicodeDecodeError (a ValueError) when it is no UTF-8."""
    code = buffer[at]
    at += 1
    if code & 129:  # longer than a byte says, or negative
        size, at = read_size(buffer, at - 1)
        end = at + size
    else:
        end = at + (code >> 1)
    return buffer[at:end].decode(), end


def read_boolean(buffer: bytes, at: int) -> tuple[bool, int]:
    """Read a boolean: one byte, 0 or 1."""
    code = buffer[at]
    if code > 1:
        raise ValueError("a boolean that is neither 0 nor 1")
    return code == 1, at + 1


def read_longs(buffer: bytes, at: int) -> tuple[list[int], int]:
    """Read an array of numbers."""
    values: list[int] = []
    while True:
        count, at = read_size(buffer, at)
        if not count:
            return values, at
        column = buffer[at : at + count]
        if column.isascii() and len(column) == count:  # each number is one byte
            values += memoryview(column.translate(_SMALL_COLUMN)).cast("b").tolist()
            at += count
            continue
        for _ in range(count):
            value, at = read_long(buffer, at)
            values.append(value)


def read_texts(buffer: bytes, at: int) -> tuple[list[str], int]:
    """Read an array of strings."""
    values: list[str] = []
    append = values.append
    while True:
        count, at = read_size(buffer, at)
        if not count:
            return values, at
        for _ in range(count):
            code = buffer[at]
            if code & 129:  # longer than a byte says, or negative
                text, at = read_text(buffer, at)
                append(text)
                continue
            at += 1
            end = at + (code >> 1)
            append(buffer[at:end].decode())
            at = end


def write_long(value: int, out: bytearray) -> None:
    """Write a zigzag number; OverflowError beyond 64 bits."""
    code = _SMALL_CODES.get(value)
    if code is not None:
        out.append(code)
        return
    if not -_LONG_LIMIT <= value < _LONG_LIMIT:
        raise OverflowError("a number of more than 64 bits")
    code = (value << 1) ^ (value >> 63)
    while code > 127:
        out.append(code & 127 | 128)
        code >>= 7
    out.append(code)


def write_bytes(value: bytes, out: bytearray) -> None:
    """Write a byte string."""
    write_long(len(value), out)
    out += value


def write_text(value: str, out: bytearray) -> None:
    """Write a string; UnicodeEncodeError when it holds a lone surrogate."""
    write_bytes(value.encode(), out)


def write_longs(values: Sequence[int], out: bytearray) -> None:
    """Write an array of numbers."""
    if values:
        write_long(len(values), out)
        try:
            out += bytes([_SMALL_CODES[value] for value in values])
        except KeyError:  # one of them takes more than a byte
            for value in values:
                write_long(value, out)
    out.append(0)


def write_texts(values: Sequence[str], out: bytearray) -> None:
    """Write an array of strings."""
    if values:
        write_long(len(values), out)
        for value in values:
            data = value.encode()
            size = len(data)
            if size < 64:
                out.append(size << 1)
            else:
                write_long(size, out)
            out += data
    out.append(0)
