"""The request header in force: system prompt, tools and call config (SEMANTICS 3).

Every request/header event is a whole snapshot and the last one wins. The canonical form leaves
out what says nothing: an empty system prompt, an empty list of tools, flags that flag nothing.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.json_text import js_dumps
from surfacelog.schemas.json_value import member, object_member, says_null

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.schemas.json_value import JsonObject, JsonValue

_CONFIG_FIELDS: Final = ("provider", "model", "reasoningEffort", "temperature", "maxTokens", "stop")
_FLAGS: Final = ("reasoningEffort", "maxTokens")
_PARTS: Final = ("system", "tools")


def canonical_header(header: JsonValue) -> JsonObject:
    """Return a header in canonical form; members it does not know are left out.

    So are a system prompt and tools that are neither text nor list; a placeholder text stays.
    """
    canonical: JsonObject = {}
    if isinstance(header, dict) and "config" in header:
        canonical["config"] = header["config"]
    flags = object_member(header, "adapterDefaults")
    if any(flags.get(flag) is True for flag in _FLAGS):
        canonical["adapterDefaults"] = flags
    for part in _PARTS:
        value = member(header, part)
        if value and isinstance(value, str | list):
            canonical[part] = value
    return canonical


def same_header(left: JsonObject | None, right: JsonObject | None) -> bool:
    """Return whether two canonical headers ask for the same request.

    Config is compared field by field, the flags and the system prompt by value, the tools as
    ordered JSON: a provider's prefix cache is lost when a schema's members change places.
    """
    if left is None or right is None:
        return left is right
    return _comparable(left) == _comparable(right)


def header_digest(header: JsonObject) -> str:
    """Return a short text that is equal for two canonical headers if `same_header` is."""
    return blake2b(_comparable(header).encode(), digest_size=16).hexdigest()


def stated_header(event: JsonObject) -> JsonObject:
    """Return the canonical header that a request/header event states.

    Raises CorruptLogError when it has none, or null in place of a system prompt or tools.
    """
    header = member(event.get("data"), "header")
    if header is None:
        raise CorruptLogError(f"request/header at seq {event.get('seq')} has no header")
    if any(says_null(header, part) for part in _PARTS):
        raise CorruptLogError(
            f"request/header at seq {event.get('seq')} has null for its system prompt or tools:"
            " leave out what there is not"
        )
    return canonical_header(header)


def last_header(events: Iterable[JsonValue]) -> JsonObject | None:
    """Return the canonical header in force at the end of a log; None before the first.

    Raises CorruptLogError for a null event and as `stated_header`.
    """
    canonical = None
    for event in events:
        if event is None:
            raise CorruptLogError("an event is null")
        if isinstance(event, dict) and event.get("type") == "request/header":
            canonical = stated_header(event)
    return canonical


def last_context(events: Iterable[JsonObject]) -> JsonObject | None:
    """Return the request context (provider, model, window) in force; None before the first."""
    context = None
    for event in events:
        if event.get("type") == "request/context":
            data = event.get("data")
            context = data if isinstance(data, dict) else {}
    return context


def _comparable(header: JsonObject) -> str:
    """Return the header's parts as one text, absent members told from null ones."""
    config, flags = object_member(header, "config"), object_member(header, "adapterDefaults")
    return js_dumps(
        [
            [[config[key]] if key in config else [] for key in _CONFIG_FIELDS],
            [flags.get(flag) is True for flag in _FLAGS],
            header.get("system"),
            header.get("tools"),
        ]
    )
