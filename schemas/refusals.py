"""The closed list of admission codes (DESIGN 4). A receipt of a refused append carries one."""

from __future__ import annotations

from typing import Final, Literal, get_args

RefusalCode = Literal[
    "malformed",
    "partition",
    "session_mismatch",
    "too_large",
    "role",
    "order",
    "loading",
    "fenced",
    "not_found",
    "exists",
    "expectation",
    "unsupported_type",
    "unsupported_version",
    "surface.op",
    "surface.span",
    "surface.sources",
    "surface.tool_result",
    "turn",
    "step",
    "pairing",
    "compaction.busy",
    "compaction.closed",
    "compaction.changed",
    "compaction.invalid",
    "inbox.claimed",
    "inbox.full",
]

CODES: Final[tuple[str, ...]] = get_args(RefusalCode)
