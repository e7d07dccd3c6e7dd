"""The sections that every summary has, in their order, and how to read and write them.

A summary is Markdown: one `## ` heading per section, under it a list whose items begin with
"- " and continue on lines that are indented by two spaces; `(none)` when there is nothing to
say (SEMANTICS 6). Because continued lines are indented, no quoted text can pass for a heading.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Section = Literal[
    "Primary request and intent",
    "Key technical concepts",
    "Files and code",
    "Errors and fixes",
    "Pending jobs",
    "Current work",
    "Next step",
    "Critical context",
]
SECTIONS: Final[tuple[Section, ...]] = get_args(Section)
NONE: Final = "(none)"

_BY_NAME: Final[dict[str, Section]] = {name.lower(): name for name in SECTIONS}
_HEADING_MARKS: Final = "#*.:) \t0123456789"


def render(sections: Mapping[Section, Iterable[str]]) -> str:
    """Return the summary's text: all sections in order, none dropped."""
    return "\n".join(_render_section(name, sections.get(name, ())) for name in SECTIONS)


def render_item(item: str) -> str:
    """Return one list item, further lines indented."""
    return "- " + item.replace("\n", "\n  ")


def parse(text: str) -> dict[Section, list[str]]:
    """Return the items of every section that the text has a heading for.

    A section without "- " items has one item a paragraph, so that a model's prose can be merged
    too. What stands before the first heading belongs to no section and is left out.
    """
    lines: dict[Section, list[str]] = {}
    current: list[str] | None = None
    for line in text.split("\n"):
        name = _heading(line)
        if name is not None:
            current = lines.setdefault(name, [])
        elif current is not None:
            current.append(line)
    return {name: _items(section) for name, section in lines.items()}


def missing_sections(text: str) -> tuple[Section, ...]:
    """Return the required sections that the text has no heading for, in order."""
    found = parse(text)
    return tuple(name for name in SECTIONS if name not in found)


def _render_section(name: Section, items: Iterable[str]) -> str:
    return f"## {name}\n" + ("\n".join(map(render_item, items)) or NONE)


def _heading(line: str) -> Section | None:
    """Models number their headings, or set them in bold: the name alone decides."""
    if line.startswith((" ", "-")):
        return None
    return _BY_NAME.get(line.strip(_HEADING_MARKS).lower())


def _items(lines: list[str]) -> list[str]:
    listed = any(line.startswith("- ") for line in lines)
    items: list[list[str]] = []
    paragraph_begins = True
    for line in lines:
        if line.startswith("- ") or (not listed and paragraph_begins and line.strip()):
            items.append([line.removeprefix("- ")])
        elif items:
            items[-1].append(line.removeprefix("  "))
        paragraph_begins = not line.strip()
    texts = ("\n".join(item).strip() for item in items)
    return [text for text in texts if text and text != NONE]
