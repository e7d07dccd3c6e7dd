"""Calls that end early: a summary or a lock is waited for only while somebody still wants it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

CANCEL_AGAIN_SECONDS: Final = 0.5


class InterruptedCallError(SurfacelogError):
    """A call was cancelled because something else happened first."""

    code: ClassVar[str] = "interrupted"


async def unless(call: Coroutine[Any, Any, T], *events: Coroutine[Any, Any, object]) -> T:
    """Return what `call` gives; cancel it and raise InterruptedCallError when an event comes first.

    An event that raises ends the call with its error.
    """
    calling = asyncio.create_task(call)
    waiting = [asyncio.create_task(event) for event in events]
    try:
        await asyncio.wait([calling, *waiting], return_when=asyncio.FIRST_COMPLETED)
        if calling.done():
            return calling.result()
        for event in waiting:
            if event.done():
                event.result()
        raise InterruptedCallError("something else happened first")
    finally:
        await end_tasks(calling, *waiting)


async def end_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and return when they have ended.

    Cancelled while it connects, a call of redis-py may go on as if it had not been (one in fifty
    did): it is cancelled again.
    """
    while pending := [task for task in tasks if not task.done()]:
        for task in pending:
            task.cancel()
        await asyncio.wait(pending, timeout=CANCEL_AGAIN_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)
