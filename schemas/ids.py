"""Session and writer ids: short, printable, safe in topic keys, Redis keys and file names."""

from __future__ import annotations

import re
from typing import Final

ID_PATTERN: Final = r"[A-Za-z0-9._:-]{1,128}"
_ID: Final = re.compile(ID_PATTERN)


def is_valid_id(text: str) -> bool:
    """Return whether a text may name a session or a writer (DESIGN 3)."""
    return _ID.fullmatch(text) is not None
