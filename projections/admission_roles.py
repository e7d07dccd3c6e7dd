"""Which role may write what (DESIGN 4: roles). Trust is the topic; this is what each is for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.projections.compaction_bracket import checkpoint_source, is_replacement
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.event_types import (
    COMPACTION_RECEIPT,
    CORE_TYPES,
    INBOX_POSTED,
    NO_PROGRESS,
    REQUEST_SENT,
    Role,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from surfacelog.schemas.json_value import JsonObject

OPENING_ROLES: Final = frozenset({"owner", "operator", "importer"})
CHUNK_ROLES: Final = frozenset({"owner", "importer"})

_COMPACTION_TYPES: Final = frozenset(t for t in CORE_TYPES if t.startswith("compaction/"))
_PLATFORM_TYPES: Final = frozenset({COMPACTION_RECEIPT, NO_PROGRESS})
# What repair needs: the closers of a crash, the end of an orphaned bracket, a message that takes
# the place of one that must not be seen.
_REPAIR_TYPES: Final = frozenset(
    {"user/message", "tool/result", "step/end", "turn/end", "session/end-seed", "compaction/end"}
)


def check_role(role: Role, event: JsonObject) -> None:
    """Raise AdmissionError `role` when the role may not write the event.

    The types that nobody knows are refused elsewhere; where they are `ignorable`, the owner, the
    operator and the importer may write them.
    """
    if not _MAY_WRITE[role](event, str(event["type"])):
        raise AdmissionError(
            "role",
            f"the {role} may not write {_described(event)}: leave it to the role that does",
        )


def _owner(event: JsonObject, kind: str) -> bool:
    if kind in _COMPACTION_TYPES or kind in _PLATFORM_TYPES:
        return False
    return checkpoint_source(event) is None


def _contributor(_event: JsonObject, kind: str) -> bool:
    return kind == INBOX_POSTED


def _compactor(event: JsonObject, kind: str) -> bool:
    if kind in _COMPACTION_TYPES or kind in _PLATFORM_TYPES:
        return True
    if kind == "tool/result":
        return is_replacement(event)
    return checkpoint_source(event) is not None


def _operator(event: JsonObject, kind: str) -> bool:
    if kind in CORE_TYPES:
        return kind in _REPAIR_TYPES and checkpoint_source(event) is None
    return kind not in (INBOX_POSTED, REQUEST_SENT)


def _importer(_event: JsonObject, _kind: str) -> bool:
    return True


def _described(event: JsonObject) -> str:
    if checkpoint_source(event) is not None:
        return "a compaction checkpoint"
    return f"{event['type']}{' replacements' if is_replacement(event) else ''}"


_MAY_WRITE: Final[dict[Role, Callable[[JsonObject, str], bool]]] = {
    "owner": _owner,
    "contributor": _contributor,
    "compactor": _compactor,
    "operator": _operator,
    "importer": _importer,
}
