from __future__ import annotations

import asyncio

from surfacelog.producers.room import Room


async def test_who_waits_goes_on_one_by_one_as_room_is_given() -> None:
    room = Room(2)
    entered = 0

    async def enter() -> None:
        nonlocal entered
        await room.wait()
        room.take(1)
        entered += 1

    tasks = [asyncio.create_task(enter()) for _ in range(5)]
    await asyncio.sleep(0)
    assert entered == 2
    room.give(1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert entered == 3
    room.give(3)
    await asyncio.gather(*tasks)
    assert entered == 5


async def test_what_is_larger_than_the_limit_is_not_stuck() -> None:
    room = Room(10)
    await room.wait()
    room.take(100)
    waiting = asyncio.create_task(room.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    room.give(100)
    await waiting
