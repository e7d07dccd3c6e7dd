"""Waiting for what other processes do, and saying what did not happen."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_SECONDS: Final = 0.05
PATIENCE_SECONDS: Final = 120.0


class DemoError(SurfacelogError):
    """The demo did not go as it should have."""

    code = "demo"


async def until(what: str, condition: Callable[[], bool]) -> None:
    """Return as soon as a condition holds; DemoError, which names it, when it does not in time."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():  # noqa: ASYNC110  # what is looked at is in other processes
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise DemoError(f"waited {PATIENCE_SECONDS:g} s in vain: {what}") from None
