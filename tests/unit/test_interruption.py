from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from surfacelog.processors.compactor.interruption import InterruptedCallError, end_tasks, unless


async def test_a_call_that_ends_first_gives_its_result() -> None:
    waits = asyncio.Event()

    assert await unless(asyncio.sleep(0, "done"), waits.wait()) == "done"


async def test_an_event_that_comes_first_cancels_the_call() -> None:
    cancelled = asyncio.Event()

    async def call() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    with pytest.raises(InterruptedCallError):
        await unless(call(), asyncio.Event().wait(), asyncio.sleep(0))
    assert cancelled.is_set()


async def test_errors_of_the_call_and_of_an_event_are_raised() -> None:
    async def fail() -> None:
        raise NotADirectoryError

    with pytest.raises(NotADirectoryError):
        await unless(fail(), asyncio.Event().wait())
    with pytest.raises(NotADirectoryError):
        await unless(asyncio.Event().wait(), fail())


async def test_who_is_cancelled_cancels_the_call() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def call() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.create_task(unless(call(), asyncio.Event().wait()))
    await begun.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert ended.is_set()


async def test_a_task_that_swallows_its_cancellation_is_cancelled_again() -> None:
    async def stubborn() -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await asyncio.Event().wait()

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await end_tasks(task)
    assert task.cancelled()
