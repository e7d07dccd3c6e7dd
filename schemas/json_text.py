"""JSON text in and out: exact, strict, of any depth, and as JavaScript prints it.

SEMANTICS 3 admits lossless JSON only: no NaN, no infinities, no -0. Integers stay integers and
floats stay floats, because header equality and digests tell 1 from 1.0.
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NoReturn

from surfacelog.schemas.json_deep import DeepParser, print_deep

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.schemas.json_value import JsonObject, JsonValue

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ARRAY_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_LARGEST_ARRAY_INDEX: Final = 2**32 - 2
_LARGEST_EXACT_INTEGER: Final = 2**53
# A double holds no integer with more digits; shorter ones are looked at.
_DOUBLE_DIGITS: Final = 308
_REPLACEMENT: Final = "\ufffd"


class JsonTextError(ValueError):
    """A text is not JSON, or a value is not lossless JSON (SEMANTICS 3)."""


def loads(text: str) -> JsonValue:
    """Return the value of a JSON text. JsonTextError for bad text, NaN, -0 and overflow.

    A repeated key keeps its first place and its last value, as in JavaScript.
    """
    try:
        value: JsonValue = _decode(text)
    except RecursionError:
        value = _parse_deep(text)
    except JsonTextError:
        raise
    except ValueError as error:
        raise JsonTextError(f"not JSON: {error}") from error
    return value


def dumps(value: JsonValue) -> str:
    """Return compact JSON text: key order kept, characters unescaped where JSON allows it.

    JsonTextError for NaN, infinities and cycles.
    """
    try:
        return _encode(value)
    except RecursionError:
        return _print_deep(value)
    except ValueError as error:
        raise JsonTextError(f"not lossless JSON: {error}") from error


def js_dumps(value: JsonValue) -> str:
    """Return what JavaScript's JSON.stringify prints for the same value.

    Numbers are doubles (1.0 is `1`, 1e21 is `1e+21`, what is out of range is `null`),
    integer-like keys come first in ascending order, lone surrogates are escaped. Prices count
    these characters (SEMANTICS 4). JsonTextError for cycles alone.
    """
    try:
        return print_deep(value, _js_scalar, _js_members)
    except ValueError as error:
        raise JsonTextError(f"not lossless JSON: {error}") from error


def text_or_json(value: JsonValue) -> str:
    """Return a text as it is, any other value as JSON text: a name for what may be of any depth,
    where Python's own `str` and `repr` would recurse."""
    return value if isinstance(value, str) else js_dumps(value)


def replace_lone_surrogates(value: JsonValue) -> tuple[JsonValue, int]:
    """Return the value with U+FFFD for every lone surrogate, keys included, and their number.

    Two halves of a pair that met by joining strings become their character and do not count.
    JsonTextError when two keys of one object would become the same: a member would be lost.
    """
    if not has_lone_surrogates(value):
        return value, 0
    text, count = replace_in_text(dumps(value))
    clean = loads(text)
    if _members(clean) != _members(value):
        raise JsonTextError("two keys of an object differ in lone surrogates alone: rename one")
    return clean, count


def has_lone_surrogates(value: JsonValue) -> bool:
    """Return whether a string or key of the value cannot be written as UTF-8."""
    return _SURROGATE.search(dumps(value)) is not None


def replace_in_text(text: str) -> tuple[str, int]:
    """Return the text with U+FFFD for every lone surrogate, and their number."""
    return _SURROGATE.subn(_REPLACEMENT, _join_pairs(text))


def _members(value: JsonValue) -> int:
    """Return how many members the objects of a value have, at any depth."""
    count = 0
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            count += len(current)
            pending.extend(current.values())
        elif isinstance(current, list):
            pending.extend(current)
    return count


def _integer(text: str) -> int:
    if text == "-0":
        raise JsonTextError("-0 is not lossless: it reads as 0")
    if len(text) > _DOUBLE_DIGITS:
        _finite(float(text), text)
    return int(text)


def _number(text: str) -> float:
    value = _finite(float(text), text)
    if value == 0 and text.startswith("-"):
        raise JsonTextError(f"{text[:20]} is not lossless: it reads as -0")
    return value


def _finite(value: float, text: str) -> float:
    if math.isinf(value):
        raise JsonTextError(f"number out of range: {text[:20]}...")
    return value


def _no_constant(text: str) -> NoReturn:
    raise JsonTextError(f"{text} is not JSON")


_decode: Final = json.JSONDecoder(
    parse_int=_integer, parse_float=_number, parse_constant=_no_constant
).decode
# Cycles are found by the deep printer, which a cycle always reaches: no bookkeeping here.
_encode: Final = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
).encode


def _parse_deep(text: str) -> JsonValue:
    try:
        return DeepParser(text, _integer, _number).parse()
    except JsonTextError:
        raise
    except ValueError as error:
        raise JsonTextError(f"not JSON: {error}") from error


def _print_deep(value: JsonValue) -> str:
    try:
        return print_deep(value, _encode, dict.items)
    except ValueError as error:
        raise JsonTextError(f"not lossless JSON: {error}") from error


def _join_pairs(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _js_members(value: JsonObject) -> Iterable[tuple[str, JsonValue]]:
    indexes = [key for key in value if _is_array_index(key)]
    if not indexes:
        return value.items()
    ordered = sorted(indexes, key=int)
    ordered += [key for key in value if not _is_array_index(key)]
    return [(key, value[key]) for key in ordered]


def _is_array_index(key: str) -> bool:
    return _ARRAY_INDEX.fullmatch(key) is not None and int(key) <= _LARGEST_ARRAY_INDEX


def _js_scalar(value: JsonValue) -> str:
    if isinstance(value, str):
        return _js_string(value)
    if isinstance(value, float) or (isinstance(value, int) and abs(value) > _LARGEST_EXACT_INTEGER):
        return _js_number(value)
    return _encode(value)


def _js_string(value: str) -> str:
    text = _encode(value)
    if not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub(lambda found: f"\\u{ord(found.group()):04x}", _join_pairs(text))


def _js_number(value: float) -> str:
    """Print a double as ECMAScript's Number::toString does: its shortest exact digits."""
    try:
        double = float(value)
    except OverflowError:  # an integer that JavaScript reads as infinite
        return "null"
    if not math.isfinite(double):
        return "null"
    if double == 0:
        return "0"
    sign = "-" if double < 0 else ""
    shortest = Decimal(repr(abs(double))).normalize()
    digits = "".join(map(str, shortest.as_tuple().digits))
    return sign + _place_point(digits, shortest.adjusted() + 1)


def _place_point(digits: str, point: int) -> str:
    """Lay out digits of which `point` stand before the decimal point."""
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"
