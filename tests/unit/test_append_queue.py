"""What an append is told whose answer never comes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from surfacelog.producers.append_queue import AppendQueue
from surfacelog.producers.errors import DeliveryError
from surfacelog.producers.room import Room
from surfacelog.schemas.codec import offline_codec
from surfacelog.schemas.records import AppendRequest, Open
from surfacelog.schemas.topics import WRITER_IDLE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

REQUEST = AppendRequest("s", "w", 0, 0, 0, "owner", open=Open({}))


class SilentTopic:
    """Takes every record, and nobody answers it. `sends` counts them."""

    def __init__(self) -> None:
        self.sends = 0
        self.sent_again = asyncio.Event()

    def produce(self, _payload: bytes, delivered: Callable[[None], None]) -> None:
        self.sends += 1
        if self.sends > 2:
            self.sent_again.set()
        asyncio.get_running_loop().call_soon(delivered, None)


def a_queue(topic: SilentTopic) -> AppendQueue:
    return AppendQueue(
        REQUEST,
        offline_codec(),
        topic.produce,
        in_memory=Room(10_000),
        max_bytes=10_000,
        patience=0.001,
        first_attempt=0,
    )


async def test_an_answer_is_not_asked_for_when_the_writer_may_be_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = SilentTopic()
    queue = a_queue(topic)
    sent = await queue.send(REQUEST)
    async with asyncio.timeout(5):
        await topic.sent_again.wait()
    assert not sent.receipt.done()
    later = time.time() + WRITER_IDLE_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: later)
    async with asyncio.timeout(5):
        with pytest.raises(DeliveryError, match="no answer"):
            await sent
    asked = topic.sends
    with pytest.raises(DeliveryError):
        await queue.send(REQUEST)
    assert topic.sends == asked
