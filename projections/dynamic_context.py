"""Dynamic context: what a plugin of the agent tells the model anew whenever it changes.

A snapshot is a user message whose source has form `snapshot` and the sections (SEMANTICS 1); the
last one of a plugin on the Surface is what the model goes by.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.json_value import list_member, object_member, text_member

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from surfacelog.schemas.json_value import JsonObject

PREAMBLE: Final = (
    "Current runtime context. This snapshot supersedes earlier runtime-context snapshots."
)


def snapshot_message(plugin: str, sections: Mapping[str, str]) -> JsonObject:
    """Return a snapshot as the data of its user/message event; `sections` are texts by name."""
    text = "\n\n".join([PREAMBLE, *sections.values()])
    return {
        "id": str(uuid.uuid4()),
        "role": "user",
        "content": [{"type": "text", "text": text}],
        "source": {
            "kind": "plugin",
            "plugin": plugin,
            "form": "snapshot",
            "sections": [{"name": name, "text": text} for name, text in sections.items()],
        },
    }


def shown_sections(messages: Sequence[JsonObject], plugin: str) -> dict[str, str] | None:
    """Return the sections of a plugin's last snapshot among the messages, None without one."""
    for message in reversed(messages):
        source = object_member(message, "source")
        if (source.get("plugin"), source.get("form")) == (plugin, "snapshot"):
            sections = list_member(source, "sections")
            return {text_member(s, "name") or "": text_member(s, "text") or "" for s in sections}
    return None
