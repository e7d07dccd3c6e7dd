"""Read and print JSON of any depth without recursion: the slow path behind `json_text`."""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from surfacelog.schemas.json_value import JsonObject, JsonValue

_Children: TypeAlias = "Iterator[tuple[str, JsonValue]]"

_decode_at: Final = JSONDecoder().raw_decode
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_NUMBER: Final = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_WORD: Final = re.compile(r"null|true|false")
_WORDS: Final[dict[str, JsonValue]] = {"null": None, "true": True, "false": False}


class DeepParser:
    """Parses one JSON text with a stack of its own; ValueError for what is not JSON.

    `integer` and `number` turn the text of a number into its value.
    """

    def __init__(
        self, text: str, integer: Callable[[str], int], number: Callable[[str], float]
    ) -> None:
        self._text = text
        self._at = 0
        self._integer = integer
        self._number = number

    def parse(self) -> JsonValue:
        """Return the value of the whole text."""
        parents: list[list[JsonValue] | JsonObject] = []
        keys: list[str] = []
        while True:
            value = self._opening_or_scalar()
            if isinstance(value, list | dict) and not self._take("]" if value == [] else "}"):
                parents.append(value)
                keys.append(self._key() if isinstance(value, dict) else "")
                continue
            while parents:
                parent = parents[-1]
                if isinstance(parent, dict):
                    parent[keys[-1]] = value
                else:
                    parent.append(value)
                if self._take(","):
                    keys[-1] = self._key() if isinstance(parent, dict) else ""
                    break
                self._expect("}" if isinstance(parent, dict) else "]")
                value = parents.pop()
                keys.pop()
            else:
                self._expect("")
                return value

    def _opening_or_scalar(self) -> JsonValue:
        if self._take("["):
            return []
        if self._take("{"):
            return {}
        if self._take('"'):
            return self._string()
        if word := _WORD.match(self._text, self._at):
            self._at = word.end()
            return _WORDS[word.group()]
        if number := _NUMBER.match(self._text, self._at):
            self._at = number.end()
            whole = number.lastindex == 1
            return self._integer(number.group()) if whole else self._number(number.group())
        raise ValueError(f"no JSON value at character {self._at}")

    def _string(self) -> str:
        quote = self._at - 1
        text, self._at = _decode_at(self._text, quote)
        return str(text)

    def _key(self) -> str:
        self._expect('"')
        key = self._string()
        self._expect(":")
        return key

    def _take(self, mark: str) -> bool:
        blank = _BLANK.match(self._text, self._at)
        assert blank is not None  # the pattern matches the empty string
        self._at = blank.end()
        if self._text[self._at : self._at + 1] != mark:
            return False
        self._at += len(mark)
        return True

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            raise ValueError(f"expected {mark or 'the end'!r} at character {self._at}")


def print_deep(
    value: JsonValue,
    scalar: Callable[[JsonValue], str],
    members: Callable[[JsonObject], Iterable[tuple[str, JsonValue]]],
) -> str:
    """Return the compact JSON text of a value; ValueError for a value that contains itself.

    `scalar` prints what is neither list nor object, keys included; `members` gives the members
    of an object in the order in which they are printed.
    """
    pieces: list[str] = []
    printing: dict[int, tuple[_Children, str]] = {}  # open containers, outermost first
    while True:
        if isinstance(value, list | dict):
            if id(value) in printing:
                raise ValueError("the value contains itself")
            opening, closing = "[]" if isinstance(value, list) else "{}"
            pieces.append(opening)
            printing[id(value)] = _children(value, scalar, members), closing
        else:
            pieces.append(scalar(value))
        while printing:
            identity = next(reversed(printing))
            children, closing = printing[identity]
            child = next(children, None)
            if child is not None:
                pieces.append(child[0])
                value = child[1]
                break
            del printing[identity]
            pieces.append(closing)
        else:
            return "".join(pieces)


def _children(
    value: list[JsonValue] | JsonObject,
    scalar: Callable[[JsonValue], str],
    members: Callable[[JsonObject], Iterable[tuple[str, JsonValue]]],
) -> _Children:
    """Yield what stands before each child, and the child."""
    comma = ""
    if isinstance(value, dict):
        for key, child in members(value):
            yield f"{comma}{scalar(key)}:", child
            comma = ","
        return
    for child in value:
        yield comma, child
        comma = ","
