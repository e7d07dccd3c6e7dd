"""When an answer of ours agrees with the reference's.

Values must be equal as JSON. A refusal must be a refusal, at the same event and of the same
class where the reference tells; its wording is the reference's own. So are a few fixed texts
(the checkpoint's preamble, the error texts of closers), and identities it drew at random.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import Any

from surfacelog.projections.checkpoint import OPENING
from surfacelog.schemas.json_equal import same_json
from surfacelog.schemas.json_text import js_dumps
from surfacelog.schemas.json_value import is_number

_REFUSAL_MEMBERS = {"error", "name", "code", "atSeq", "atIndex"}
_SESSION = re.compile(r"\bcase-\d+\b")
_CODES = {
    "SessionFormatUnsupportedError": "unsupported",
    "SessionPersistenceCorruptionError": "corrupt",
    "INVALID_BOUNDARY": "fork.invalid_boundary",
    "OPEN_TURN": "fork.open_turn",
    "SESSION_QUERY_EVENT_NOT_FOUND": "not_found",
}


@dataclass(frozen=True)
class Refused:
    """Our refusal: its code, and the event (as it names itself, and counted) where known."""

    code: str
    seq: Any = None
    index: int | None = None
    message: str = ""


def difference(expected: Any, actual: Any, where: str = "") -> str | None:
    """Return the first difference, None when there is none."""
    if _is_refusal(expected):
        return _refusal_difference(expected, actual, where)
    if isinstance(actual, Refused):
        return f"{where}: refused ({actual.code}: {actual.message}), expected {_short(expected)}"
    if isinstance(expected, dict) and isinstance(actual, dict):
        if expected.keys() != actual.keys():
            return f"{where}: has {sorted(actual)}, expected {sorted(expected)}"
        members = ((f"{where}.{key}", expected[key], actual[key]) for key in expected)
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return f"{where}: {len(actual)} items, expected {len(expected)}"
        pairs = enumerate(zip(expected, actual, strict=True))
        members = ((f"{where}[{at}]", want, got) for at, (want, got) in pairs)
    else:
        same = _same_scalar(expected, actual)
        return None if same else f"{where}: {_short(actual)}, expected {_short(expected)}"
    found = (difference(want, got, place) for place, want, got in members)
    return next((text for text in found if text is not None), None)


def without_fixed_texts(value: Any) -> Any:
    """Return an answer with the texts that are each implementation's own made equal."""
    if isinstance(value, list):
        return [without_fixed_texts(item) for item in value]
    if not isinstance(value, dict):
        return _SESSION.sub("case", value) if isinstance(value, str) else value
    plain = {key: without_fixed_texts(item) for key, item in value.items()}
    if plain.get("type") == "compaction/end" and isinstance(plain.get("data"), dict):
        plain["data"] = {key: "" if key == "error" else v for key, v in plain["data"].items()}
    if str(plain.get("id", "")).startswith("interrupted-tool-result-"):
        plain["content"][0]["content"] = []
    text = plain.get("text")
    if plain.get("type") == "text" and isinstance(text, str) and text.endswith(OPENING):
        plain["text"] = OPENING
    return plain


def _is_refusal(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("error"), str)
        and value.keys() <= _REFUSAL_MEMBERS
    )


def _refusal_difference(expected: dict[str, Any], actual: Any, where: str) -> str | None:
    if not isinstance(actual, Refused):
        return f"{where}: {_short(actual)}, expected a refusal: {expected['error'][:120]}"
    code = _CODES.get(expected.get("code", ""), expected.get("code")) or _CODES.get(
        expected.get("name", "")
    )
    if code is not None and code != actual.code:
        return f"{where}: refused as {actual.code}, expected {code}"
    if "atIndex" in expected and expected["atIndex"] != actual.index:
        return f"{where}: refused at index {actual.index}, expected {expected['atIndex']}"
    if "atSeq" in expected and not _same_scalar(expected["atSeq"], actual.seq):
        return f"{where}: refused at seq {actual.seq!r}, expected {expected['atSeq']!r}"
    named = re.search(r"at index (\d+)", expected["error"])
    if named and actual.index is not None and int(named[1]) != actual.index:
        return f"{where}: refused at index {actual.index}, expected {named[1]}"
    return None


def _same_scalar(expected: Any, actual: Any) -> bool:
    """JavaScript reads a number that is too large for it as its nearest neighbour, and prints
    one that is out of range as null."""
    if not is_number(actual):
        return same_json(expected, actual)
    if not isfinite(actual):
        return expected is None
    return is_number(expected) and float(expected) == float(actual)


def _short(value: Any) -> str:
    text = repr(value) if isinstance(value, Refused) else js_dumps(value)
    return text if len(text) <= 160 else text[:157] + "..."
