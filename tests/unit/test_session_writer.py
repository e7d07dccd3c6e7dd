"""The owner's writer against admission itself, without Kafka: what a refusal takes with it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.live_session import LiveSession

from surfacelog.producers.append_queue import AppendQueue
from surfacelog.producers.chunk_buffer import Streaming
from surfacelog.producers.errors import AppendRefused
from surfacelog.producers.room import Room
from surfacelog.producers.session_writer import SessionWriter
from surfacelog.projections.admission import Admitted, Refused
from surfacelog.schemas.codec import EncodeError, offline_codec
from surfacelog.schemas.records import Receipt

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from surfacelog.producers.agent_turn import Step
    from surfacelog.producers.append_client import AppendClient
    from surfacelog.producers.append_queue import SentAppend
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import AppendRequest
    from surfacelog.schemas.settings import Settings

MAX_BYTES = 20_000
SETTINGS = cast("Settings", SimpleNamespace())
NO_TURN: JsonObject = {"type": "step/start", "data": {"turn": 7, "step": 1}}


class LocalClient:
    """Admits at once what is sent, and answers when the loop comes round."""

    def __init__(self) -> None:
        self.session = LiveSession()
        self._codec = offline_codec()
        self._queue: AppendQueue | None = None

    def writer_id(self, _session_id: str) -> str:
        return "agent"

    async def send(self, request: AppendRequest) -> SentAppend:
        if self._queue is None:
            self._queue = AppendQueue(
                request,
                self._codec,
                self._admit,
                in_memory=Room(10 * MAX_BYTES),
                max_bytes=MAX_BYTES,
                patience=60,
                first_attempt=0,
            )
        return await self._queue.send(request)

    def release(self, _session_id: str, _writer_id: str) -> None:
        assert self._queue is not None
        self._queue.fail(AppendRefused("s", 0, "order", "closed"))

    def kinds(self) -> list[str]:
        return [str(event["type"]) for event in self.session.events()]

    def _admit(self, payload: bytes, delivered: Callable[[None], None]) -> None:
        request = self._codec.decode_request(payload).request
        decision = self.session.send(request)
        identity = (request.session_id, request.writer_id, request.append_seq, request.attempt)
        if isinstance(decision, Refused):
            receipt = Receipt(*identity, "refused", code=decision.code, message=decision.message)
        else:
            assert isinstance(decision, Admitted)
            batch = decision.batch
            first = batch.first_seq if batch.items else None
            last = batch.next_seq - 1 if batch.items else None
            receipt = Receipt(*identity, "committed", first, last, batch.epoch)
        assert self._queue is not None
        loop = asyncio.get_running_loop()
        loop.call_soon(delivered, None)
        loop.call_soon(partial(self._queue.receive, receipt))


@asynccontextmanager
async def a_writer() -> AsyncIterator[tuple[SessionWriter, LocalClient]]:
    client = LocalClient()
    streaming = Streaming(seconds=60)
    async with SessionWriter.open(
        SETTINGS, "s", client=cast("AppendClient", client), streaming=streaming
    ) as writer:
        yield writer, client


def text_delta(text: str) -> JsonObject:
    return {"type": "text-delta", "index": 0, "text": text}


async def test_chunks_that_waited_when_a_handle_told_of_a_refusal_are_not_admitted() -> None:
    async with a_writer() as (writer, client), await writer.turn() as turn, turn.step() as step:
        refused = await writer.append(NO_TURN)
        await step.text("belongs to what was refused")
        with pytest.raises(AppendRefused, match="turn"):
            await refused.committed()
    assert client.kinds() == ["turn/start", "step/start", "step/end", "turn/end"]


async def test_a_response_whose_chunks_were_refused_is_told_once() -> None:
    async with a_writer() as (writer, client), await writer.turn() as turn, turn.step() as step:
        await writer.chunk(1, 9, text_delta("in a step that is not open"))
        await writer._send_streamed()
        with pytest.raises(AppendRefused, match="step"):
            await step.assistant(provider="p", model="m", content=[])
        await step.text("kept")
        await step.assistant(provider="p", model="m", content=[])
    assert client.kinds()[2:4] == ["assistant/chunk", "assistant/message"]


async def test_a_chunk_larger_than_any_append_is_told_once() -> None:
    async with a_writer() as (writer, client), await writer.turn() as turn, turn.step() as step:
        with pytest.raises(AppendRefused, match="too_large"):
            await step.text("x" * 40_000)
        await step.text("kept")
        await step.assistant(provider="p", model="m", content=[])
    assert client.kinds()[2:4] == ["assistant/chunk", "assistant/message"]


async def test_a_response_larger_than_any_append_leaves_its_chunks() -> None:
    async with a_writer() as (writer, client), await writer.turn() as turn, turn.step() as step:
        await step.text("kept")
        large: list[JsonObject] = [{"type": "text", "text": "x" * MAX_BYTES}]
        with pytest.raises(AppendRefused, match="too_large"):
            await step.assistant(provider="p", model="m", content=large)
        await step.assistant(provider="p", model="m", content=[])
    assert client.kinds()[2:4] == ["assistant/chunk", "assistant/message"]


async def test_an_older_handle_that_is_asked_late_drops_nothing() -> None:
    async with a_writer() as (writer, client), await writer.turn() as turn, turn.step() as step:
        refused = await writer.append(NO_TURN)
        with pytest.raises(AppendRefused, match="turn"):
            await writer.flush()
        await step.text("kept")
        with pytest.raises(AppendRefused, match="turn"):
            await refused.committed()
        await step.assistant(provider="p", model="m", content=[])
    assert client.kinds()[2:4] == ["assistant/chunk", "assistant/message"]


def responses(client: LocalClient) -> list[Any]:
    return [e for e in client.session.events() if e["type"] == "assistant/message"]


def texts(client: LocalClient) -> list[str]:
    blocks = [b for one in responses(client) for b in one["data"]["message"]["content"]]
    return [block["text"] for block in blocks]


async def test_a_response_has_nothing_of_what_was_dropped_behind_a_refusal() -> None:
    async with a_writer() as (writer, client), await writer.turn() as turn, turn.step() as step:
        refused = await writer.append(NO_TURN)
        await step.text("dropped ")
        with pytest.raises(AppendRefused, match="turn"):
            await refused.committed()
        await step.text("kept")
        await step.assistant(provider="p", model="m")
    assert texts(client) == ["kept"]


async def test_a_response_has_nothing_of_the_attempt_that_was_given_up() -> None:
    async with a_writer() as (writer, client), await writer.turn() as turn, turn.step() as step:
        await step.text("first attempt")
        await step.chunk({"type": "usage", "usage": {"inputTokens": 7, "outputTokens": 1}})
        await writer.restart_response()
        await step.text("second attempt")
        await step.assistant(provider="p", model="m")
    assert texts(client) == ["second attempt"]
    (response,) = responses(client)
    assert "usage" not in response["data"]
    assert response["sourceEventSeqs"] == [4]


async def test_a_step_cites_nothing_that_an_earlier_one_streamed() -> None:
    async with a_writer() as (writer, client), await writer.turn() as turn:
        async with turn.step() as step:
            await step.text("the model failed")
        async with turn.step() as step:
            await step.text("answer")
            await step.assistant(provider="p", model="m")
    (response,) = responses(client)
    assert response["sourceEventSeqs"] == [response["seq"] - 1]
    assert texts(client) == ["answer"]


async def stream_and_flush(step: Step, chunk: JsonObject) -> None:
    await step.chunk(chunk)
    await step.writer.flush()


@pytest.mark.parametrize("number", [float("nan"), -0.0])
async def test_a_chunk_that_is_no_json_is_told_once(number: float) -> None:
    async with a_writer() as (writer, client), await writer.turn() as turn, turn.step() as step:
        with pytest.raises(EncodeError):
            await stream_and_flush(step, {"type": "usage", "usage": {"inputTokens": number}})
        await step.text("kept")
        await step.assistant(provider="p", model="m")
    assert texts(client) == ["kept"]
