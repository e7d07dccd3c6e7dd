"""The session header that stands beside a log: who, when, where, and from which parent.

`{version: 0, id, createdAt, cwd?, parentSession?, seedLength?, origin?, delegationDepth?,
agentPreset?}` (SEMANTICS 8). It is not an event and no fold reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.schemas.errors import CorruptLogError, UnsupportedLogError
from surfacelog.schemas.json_text import text_or_json
from surfacelog.schemas.json_value import is_count, member

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

FORMAT_VERSION: Final = 0
MEMBERS: Final = (
    "version",
    "id",
    "createdAt",
    "cwd",
    "parentSession",
    "seedLength",
    "origin",
    "delegationDepth",
    "agentPreset",
)


def check_version(header: JsonValue) -> None:
    """Refuse a log of another format version before anything else of it is judged.

    Raises UnsupportedLogError; a header without a numeric version is left to `check_header`.
    """
    version = member(header, "version")
    if isinstance(version, bool) or not isinstance(version, int | float):
        return
    if version != FORMAT_VERSION:
        way = "upgrade to read it" if version > FORMAT_VERSION else "there is no upgrade path"
        raise UnsupportedLogError(
            f"the log has format version {version}, this reader knows {FORMAT_VERSION}: {way}",
            version=version,
        )


def check_known_version(header: JsonValue) -> None:
    """As `check_version`, and for a version that is no number or is not there too.

    For the header of a log in a store: who wrote it knows another format, it is not damaged.
    """
    check_version(header)
    version = member(header, "version")
    if isinstance(version, bool) or version != FORMAT_VERSION:
        raise UnsupportedLogError(
            f"the log has format version {text_or_json(version)[:40]}, this reader knows"
            f" {FORMAT_VERSION}: there is no upgrade path",
            version=version,
        )


def check_header(header: JsonValue) -> None:
    """Refuse a session header that is not as described above; unknown members are let be.

    Raises UnsupportedLogError for another version, CorruptLogError for everything else.
    """
    check_version(header)
    if not isinstance(header, dict) or header.get("version") is not FORMAT_VERSION:
        raise CorruptLogError("a session header is an object with version 0")
    if not isinstance(header.get("id"), str):
        raise CorruptLogError("a session header has an id")
    if not is_count(header.get("createdAt")):
        raise CorruptLogError("a session header's createdAt is a time in ms")
    for name in ("cwd", "parentSession", "agentPreset"):
        if name in header and not isinstance(header[name], str):
            raise CorruptLogError(f"a session header's {name} is a string")
    for name in ("seedLength", "delegationDepth"):
        if name in header and not is_count(header[name]):
            raise CorruptLogError(f"a session header's {name} is a non-negative integer")
    if "cwd" in header and not str(header["cwd"]).startswith("/"):
        raise CorruptLogError("a session header's cwd is an absolute path")
    if "origin" in header and header["origin"] != "subagent":
        raise CorruptLogError("a session header's origin is 'subagent'")


def check_recorded_header(header: JsonObject) -> None:
    """As `check_header`, but any cwd is let be: recordings carry a placeholder there."""
    check_header({name: value for name, value in header.items() if name != "cwd"})


def child_header(
    parent: JsonObject, child_id: str, *, seed_length: int, created_at: int
) -> JsonObject:
    """Return the header of a session that is forked from `parent` (SEMANTICS 8).

    `created_at` is ms UTC; `seed_length` counts the events that the child begins with.
    """
    header: JsonObject = {"version": FORMAT_VERSION, "id": child_id, "createdAt": created_at}
    if "cwd" in parent:
        header["cwd"] = parent["cwd"]
    header["parentSession"] = parent["id"]
    header["seedLength"] = seed_length
    return header
