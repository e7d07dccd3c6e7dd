"""The checkout that a command belongs to: where its local stack is defined and lives."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import surfacelog
from surfacelog.processors.stack.errors import StackError

DEFINITION: Final = Path("deploy", "local")
DEFAULT_DIRECTORY: Final = ".surfacelog"


def find_checkout() -> Path | None:
    """Return the checkout around the working directory, else the one this package runs from."""
    package = Path(surfacelog.__file__).parent
    candidates = (Path.cwd(), *Path.cwd().parents, *package.parents)
    return next((path for path in candidates if (path / DEFINITION / "pom.xml").exists()), None)


def require_checkout() -> Path:
    """Return the checkout; StackError when there is none."""
    checkout = find_checkout()
    if checkout is None:
        raise StackError(
            "The local stack is defined in deploy/local of a checkout of surfacelog, and neither "
            "the working directory nor this installation is in one."
        )
    return checkout
