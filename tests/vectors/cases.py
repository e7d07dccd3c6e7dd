"""Reading reference cases: one `{"case": {...}, "answer": {...}}` a line, xz or not."""

from __future__ import annotations

import lzma
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from surfacelog.schemas.json_lenient import lenient_loads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = 1_700_000_000_000
"""The reference's clock stood still at this time, in ms."""


@dataclass(frozen=True, eq=False)
class Case:
    """What the reference was asked, and what it answered."""

    question: dict[str, Any]
    answer: dict[str, Any]

    @property
    def name(self) -> str:
        """The case's id."""
        return str(self.question["id"])

    @cached_property
    def events(self) -> list[Any]:
        """The log, raw; from its text where spelling matters."""
        text = self.question.get("eventsText")
        if text is not None:
            parsed = lenient_loads(text)
            assert isinstance(parsed, list)
            return parsed
        return list(self.question["events"])


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a file."""
    opener = lzma.open if path.suffix == ".xz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for line in filter(str.strip, lines):
            parsed: Any = lenient_loads(line)
            yield Case(parsed["case"], parsed["answer"])
