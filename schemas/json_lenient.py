"""JSON text as JavaScript reads it: -0 and numbers that overflow are values too.

Stored logs are read this way, so that what is not lossless is found and named, not mistaken for
bad text; `schemas.json_text` is for everything that is written or sent.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn

from surfacelog.schemas.json_deep import DeepParser

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonValue

_LONGEST_INTEGER: Final = 308  # digits; longer ones may be beyond the range of a double


def lenient_loads(text: str) -> JsonValue:
    """Return the value of a JSON text of any depth; -0 is -0.0, 1e400 infinite.

    Raises ValueError for what is no JSON; NaN and Infinity are none.
    """
    try:
        value: JsonValue = _decode(text)
    except RecursionError:
        return DeepParser(text, _number, float).parse()
    return value


def _number(text: str) -> Any:
    """Return an integer; as a float where only a float says what JavaScript reads."""
    return float(text) if text == "-0" or len(text) > _LONGEST_INTEGER else int(text)


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_decode: Final = json.JSONDecoder(parse_int=_number, parse_constant=_no_constant).decode
