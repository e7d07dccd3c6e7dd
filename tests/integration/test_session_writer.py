"""The owner's writer on a real broker with a real sequencer; the test passes receipts on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.postman import Postman
from tests.sequencing import Bus, Member, check_log, note, wait_until

from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.chunk_buffer import Streaming
from surfacelog.producers.errors import AppendRefused, FlushTimeout
from surfacelog.producers.inbox import InboxPoster
from surfacelog.producers.session_writer import SessionWriter
from surfacelog.projections.log_reader import LogReader
from surfacelog.schemas.errors import NotFoundError
from surfacelog.schemas.records import ChunkRun

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

NO_TURN: JsonObject = {"type": "step/start", "data": {"turn": 1, "step": 1}}


@pytest.fixture
def bus(settings: Settings) -> Bus:
    return Bus(settings)


@pytest.fixture
def sequencer(bus: Bus) -> Iterator[Member]:
    member = Member(bus)
    member.wait_owns([0, 1, 2, 3])
    yield member
    member.stop()


@pytest.fixture
async def client(bus: Bus, sequencer: Member) -> AsyncIterator[AppendClient]:  # noqa: ARG001  # it answers
    postman = Postman(bus)
    async with (
        postman.passing_everything_on(),
        AppendClient(bus.settings, bus.codec, patience=2) as client,
    ):
        yield client
    await postman.close()


@pytest.fixture
def log(bus: Bus) -> LogReader:
    return LogReader(bus.settings, bus.codec)


async def test_a_turn_is_in_the_log_as_it_was_written(
    client: AppendClient, bus: Bus, log: LogReader
) -> None:
    async with (
        SessionWriter.open(bus.settings, "s", cwd="/tmp", client=client) as writer,
        await writer.turn() as turn,
        turn.step() as step,
    ):
        await step.user("What is 2 + 2?")
        await step.request_header({"config": {"provider": "p", "model": "m"}}, "initial")
        await writer.checkpoint()
        await step.chunk({"type": "block-start", "index": 0, "blockType": "text"})
        for number in range(150):
            await step.text(f"{number} ")
        await step.assistant(provider="p", model="m", usage={"inputTokens": 9, "outputTokens": 150})
    events = list(log.events("s"))
    kinds = [event["type"] for event in events if event["type"] != "assistant/chunk"]
    assert kinds == [
        "turn/start",
        "step/start",
        "user/message",
        "request/header",
        "assistant/message",
        "step/end",
        "turn/end",
    ]
    response = next(event for event in events if event["type"] == "assistant/message")
    chunks = [event["seq"] for event in events if event["type"] == "assistant/chunk"]
    assert response["sourceEventSeqs"] == chunks
    assert len(chunks) == 151
    assert response["data"]["message"]["content"] == [  # type: ignore[index,call-overload]  # as written
        {"type": "text", "text": "".join(f"{number} " for number in range(150))}
    ]
    batches = [batch for _, batch in log.batches("s")]
    assert len(batches) <= 12  # 151 chunks travelled as runs
    assert batches[0].opened is not None
    assert batches[0].opened.header["cwd"] == "/tmp"


async def test_a_refusal_is_raised_at_the_next_call_and_nothing_slips_past_it(
    client: AppendClient, bus: Bus, log: LogReader
) -> None:
    async with SessionWriter.open(bus.settings, "s", client=client) as writer:
        first = await writer.append(note("first"))
        await writer.append(NO_TURN)
        behind = await writer.append(note("behind"))
        with pytest.raises(AppendRefused) as refused:
            await writer.flush()
        assert (refused.value.code, refused.value.event_index) == ("turn", 0)
        assert await first.committed() == range(1)
        with pytest.raises(AppendRefused, match="order"):
            await behind.committed()
        again = await writer.append(note("again"), note("atomically"))
        assert await again.committed() == range(1, 3)
    assert [event["data"]["id"] for event in log.events("s")] == ["first", "again", "atomically"]  # type: ignore[index,call-overload]  # notes


async def test_a_refusal_that_a_handle_told_of_is_not_told_twice(
    client: AppendClient, bus: Bus
) -> None:
    async with SessionWriter.open(bus.settings, "s", client=client) as writer:
        refused = await writer.append(NO_TURN)
        await writer.append(note("behind"))
        with pytest.raises(AppendRefused):
            await refused.committed()
        await writer.append(note("next"))
        assert await writer.flush() == 0


async def test_chunks_behind_a_refusal_are_dropped_with_it(
    client: AppendClient, bus: Bus, log: LogReader
) -> None:
    async with (
        SessionWriter.open(
            bus.settings, "s", client=client, streaming=Streaming(seconds=0.01)
        ) as writer,
        await writer.turn() as turn,
        turn.step() as step,
    ):
        refused = await writer.append({"type": "turn/start", "data": {"turn": 7}})
        await step.text("lost")
        await asyncio.to_thread(wait_until, "the refusal", refused._sent.receipt.done)
        await asyncio.sleep(0.05)  # longer than the chunks may wait
        with pytest.raises(AppendRefused, match="append 3"):
            await step.text("never sent")
        await step.text("kept")
        await step.assistant(provider="p", model="m", content=[])
    chunks = [event["data"] for event in log.events("s") if event["type"] == "assistant/chunk"]
    assert [data["chunk"]["text"] for data in chunks] == ["kept"]  # type: ignore[index,call-overload]  # text deltas


async def test_chunks_are_sent_after_a_while_without_any_call(
    client: AppendClient, bus: Bus, log: LogReader
) -> None:
    async with (
        SessionWriter.open(bus.settings, "s", client=client) as writer,
        await writer.turn() as turn,
        turn.step() as step,
    ):
        for number in range(5):
            await step.text(f"{number}")
        await asyncio.to_thread(wait_until, "the chunks", lambda: log.end_seq("s") == 6)
    runs = [item for _, batch in log.batches("s") for item in batch.items]
    assert [len(run) for run in runs if isinstance(run, ChunkRun)] == [5]


async def test_a_new_owner_fences_the_old_one_and_goes_on(client: AppendClient, bus: Bus) -> None:
    async with SessionWriter.open(bus.settings, "s", client=client) as old:
        async with await old.turn():
            pass
        await old.flush()
        async with SessionWriter.open(bus.settings, "s", client=client) as new:
            assert (old.epoch, new.epoch) == (1, 2)
            await old.append(note("too late"))
            with pytest.raises(AppendRefused) as refused:
                await old.flush()
            assert refused.value.code == "fenced"
            async with await new.turn() as turn:
                assert turn.number == 2
    check_log(bus)


async def test_a_guest_posts_and_the_owner_claims(client: AppendClient, bus: Bus) -> None:
    async with SessionWriter.open(bus.settings, "s", client=client) as writer:
        guest = InboxPoster(client, "s")
        seq = await guest.post({"text": "hello"})
        claim = await writer.append({**note("claim"), "sourceEventSeqs": [seq]})
        assert await claim.committed() == range(seq + 1, seq + 2)
        await writer.append({**note("again"), "sourceEventSeqs": [seq]})
        with pytest.raises(AppendRefused, match=r"inbox\.claimed"):
            await writer.flush()
        with pytest.raises(AppendRefused, match="not_found"):
            await InboxPoster(client, "nobody").post({"text": "hello"})


async def test_lone_surrogates_are_replaced_and_counted(
    client: AppendClient, bus: Bus, log: LogReader
) -> None:
    async with SessionWriter.open(bus.settings, "s", client=client) as writer:
        handle = await writer.append(note("half \ud83d"))
        assert handle.replaced == 2  # id and text
    (event,) = log.events("s")
    assert event["data"]["id"] == "half \ufffd"  # type: ignore[index,call-overload]  # a note


async def test_a_flush_that_takes_too_long_says_what_is_known(bus: Bus) -> None:
    """Nobody sequences: Kafka has the open and nothing more is known."""
    async with AppendClient(bus.settings, bus.codec) as client:
        with pytest.raises(FlushTimeout) as late:
            async with SessionWriter.open(bus.settings, "s", client=client, timeout=4):
                pass
    assert (late.value.sent, late.value.accepted, late.value.committed) == (1, 1, 0)


async def test_what_is_not_visible_is_committed_all_the_same(
    client: AppendClient, bus: Bus
) -> None:
    """Nobody projects."""
    async with SessionWriter.open(bus.settings, "s", client=client) as writer:
        await writer.append(note("a"))
        with pytest.raises(FlushTimeout) as late:
            await writer.flush("visible", timeout=0.5)
    assert (late.value.committed, late.value.committed_seq, late.value.visible_seq) == (2, 0, -1)


async def test_the_reader_gives_a_range_and_knows_what_is_not_there(
    client: AppendClient, bus: Bus, log: LogReader
) -> None:
    async with SessionWriter.open(bus.settings, "s", client=client) as writer:
        for number in range(10):
            await writer.append(note(f"a{number}"), note(f"b{number}"))
    assert [event["seq"] for event in log.events("s", 3, 6)] == [3, 4, 5, 6]
    assert [batch.first_seq for _, batch in log.batches("s", 3, 6)] == [2, 4, 6]
    assert list(log.events("s", 20)) == []
    assert log.end_seq("s") == 19
    with pytest.raises(NotFoundError):
        list(log.events("s", 21))
    with pytest.raises(NotFoundError):
        list(log.events("nobody"))
