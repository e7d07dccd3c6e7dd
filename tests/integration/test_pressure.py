"""Sessions that are compacted because they are full: nobody asks but the projector."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from tests.chat_server import SUMMARY, ChatServer, says_text
from tests.integration.compaction_stack import LONG, Stack, connect
from tests.live_session import assistant, event, step_end, step_start, turn_start, user

from surfacelog.schemas.event_types import COMPACTION_RECEIPT, NO_PROGRESS
from surfacelog.schemas.json_value import member
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.private_redis import PrivateRedis
    from tests.processes import Spawned, Spawner

    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import CompactionRequest
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

WAIT_SECONDS = 30.0
WINDOW = 4000
"""The threshold is 3,200 tokens and the tail that stays 640; a step of LONG costs about 510."""


def header(system: str = "be brief") -> JsonObject:
    config: JsonObject = {"provider": "p", "model": "m"}
    return event(
        "request/header", {"header": {"config": config, "system": system}, "reason": "change"}
    )


def window(tokens: int) -> JsonObject:
    return event("request/context", {"provider": "p", "model": "m", "contextWindow": tokens})


async def begin(stack: Stack, session_id: str, *, system: str = "be brief") -> None:
    await stack.open(session_id)
    await stack.owner(session_id, turn_start(), header(system), window(WINDOW))


async def write_step(stack: Stack, session_id: str, step: int, text: str = LONG) -> int:
    """Append a step and return its last seq."""
    receipt = await stack.owner(
        session_id, step_start(step), user(text), assistant(step=step), step_end(step)
    )
    assert receipt.last_seq is not None
    return receipt.last_seq


async def fill(stack: Stack, session_id: str, steps: range = range(1, 8)) -> int:
    """Write steps until the session is over its threshold (7 are needed)."""
    last = -1
    for step in steps:
        last = await write_step(stack, session_id, step)
    await stack.read(session_id, last)
    return last


def requests(settings: Settings) -> list[CompactionRequest]:
    """Return everything on the topic of requests."""
    codec, topic = connect_codec(settings), settings.topics.compactions
    config: dict[str, Any] = {
        "bootstrap.servers": settings.kafka,
        "group.id": "test",
        "enable.partition.eof": True,
    }
    found, ended = [], 0
    with closing(Consumer(config)) as consumer:
        consumer.assign(
            [TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(settings.partitions)]
        )
        while ended < settings.partitions:
            message = consumer.poll(WAIT_SECONDS)
            assert message is not None, "Kafka does not answer"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended += 1
            else:
                found.append(codec.decode_compaction(message.value() or b""))
    return found


async def asked(stack: Stack) -> list[tuple[str, int, str]]:
    """Return session, generation and id of every pressure request, doubled ones included."""
    found = await asyncio.to_thread(requests, stack.settings)
    return [(r.session_id, r.generation, r.request_id) for r in found if r.trigger == "pressure"]


async def until(what: str, condition: Callable[[], Awaitable[bool]]) -> None:
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            while not await condition():  # noqa: ASYNC110  # what is looked at is elsewhere
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"not within {WAIT_SECONDS} s: {what}") from None


async def until_asked(stack: Stack, count: int) -> list[tuple[str, int, str]]:
    async def enough() -> bool:
        return len(await asked(stack)) >= count

    await until(f"{count} requests", enough)
    return await asked(stack)


async def until_events(stack: Stack, session_id: str, kind: str, count: int) -> list[JsonObject]:
    async def there() -> bool:
        return len(await events_of(stack, session_id, kind)) >= count

    await until(f"{count} {kind}", there)
    return await events_of(stack, session_id, kind)


async def events_of(stack: Stack, session_id: str, kind: str) -> list[JsonObject]:
    return [event for event in await stack.events(session_id) if event["type"] == kind]


async def test_a_full_session_is_compacted_by_itself_and_once(stack: Stack, spawn: Spawner) -> None:
    spawn("compactor")
    await begin(stack, "full")
    await fill(stack, "full", range(1, 7))
    assert await asked(stack) == []

    last = await write_step(stack, "full", 7)
    await until_events(stack, "full", COMPACTION_RECEIPT, 1)
    await write_step(stack, "full", 8)

    (receipt,) = await events_of(stack, "full", COMPACTION_RECEIPT)
    assert member(receipt["data"], "trigger") == "pressure"
    assert member(receipt["data"], "asOfSeq") == last + 1
    cut = await stack.check_surface("full")
    assert cut.generation == 1
    assert (cut.tokens.total or 0) < 3200
    assert await asked(stack) == [("full", 0, "pressure-0-0")]


@asynccontextmanager
async def full_session(
    settings: Settings, own_redis: PrivateRedis, spawn: Spawner
) -> AsyncIterator[tuple[Stack, Spawned, dict[str, str]]]:
    """Fill the session "full" on a Redis of the test's own.

    Yield what to do with it, its projector and the variables that name its Redis.
    """
    redis = {"SURFACELOG_REDIS": own_redis.url}
    spawn("sequencer", **redis)
    projector = spawn("projector", **redis)
    async with connect(settings.model_copy(update={"redis": own_redis.url})) as stack:
        await begin(stack, "full")
        await fill(stack, "full")
        yield stack, projector, redis


async def test_restarts_and_losses_of_the_projector_repeat_no_request(
    settings: Settings, own_redis: PrivateRedis, spawn: Spawner
) -> None:
    """Nobody carries the request out, so that every step finds the session full."""
    async with full_session(settings, own_redis, spawn) as (stack, projector, redis):
        expected = [("full", 0, "pressure-0-0")]
        assert await until_asked(stack, 1) == expected

        projector.kill()
        projector = spawn("projector", **redis)
        await stack.read("full", await write_step(stack, "full", 8))
        assert await asked(stack) == expected, "after a kill"

        own_redis.flushall()
        await stack.read("full", await write_step(stack, "full", 9))
        assert await asked(stack) == expected, "emptied while it ran"

        assert projector.terminate() == 0
        own_redis.flushall()
        spawn("projector", **redis)
        await stack.read("full", await write_step(stack, "full", 10))
        assert await asked(stack) == expected, "emptied while it was away"


async def test_a_failed_attempt_is_asked_for_again_after_a_pause(
    settings: Settings, spawn: Spawner
) -> None:
    """The session is at rest: no step reminds the projector."""
    spawn("sequencer")
    spawn("projector", SURFACELOG_COMPACTION_BACKOFF_SECONDS="1")
    async with (
        ChatServer([says_text("I cannot help."), says_text(SUMMARY)]) as server,
        connect(settings) as stack,
    ):
        spawn("compactor", **asking(server))
        await begin(stack, "failing")
        await fill(stack, "failing")
        await until_events(stack, "failing", COMPACTION_RECEIPT, 1)

        ends = await events_of(stack, "failing", "compaction/end")
        assert [member(end["data"], "errorClass") for end in ends] == ["summary", None]
        starts = await events_of(stack, "failing", "compaction/start")
        assert time_of(starts[1]) - time_of(ends[0]) >= 1000
        ids = [request_id for _, _, request_id in await asked(stack)]
        assert ids == ["pressure-0-0", "pressure-0-1"]
        cut = await stack.check_surface("failing")
        assert cut.pressure.failures == 0


def asking(server: ChatServer) -> dict[str, str]:
    return {"SURFACELOG_SUMMARIZER": "openai", "SURFACELOG_SUMMARIZER_URL": server.url}


def time_of(event: JsonObject) -> int:
    time = event["time"]
    assert isinstance(time, int)
    return time


async def test_all_triggers_at_once_and_again_in_the_middle_make_one_compaction(
    stack: Stack, spawn: Spawner
) -> None:
    enough = asyncio.Event()

    async def slowly(writer: asyncio.StreamWriter) -> None:
        await enough.wait()
        await says_text(SUMMARY)(writer)

    async def ask_both() -> list[CompactionRequest]:
        return [
            await stack.compactions.request(
                "wanted", generation=0, requested_by="test", trigger=trigger
            )
            for trigger in ("manual", "context-overflow")
        ]

    async with ChatServer([slowly]) as server:
        await begin(stack, "wanted")
        await fill(stack, "wanted")
        await until_asked(stack, 1)
        others = await ask_both()
        spawn("compactor", **asking(server))
        await server.asked.wait()
        others += await ask_both()
        message = await stack.owner("wanted", user("and one more thing"))
        await stack.read("wanted", await write_step(stack, "wanted", 8))
        enough.set()
        outcomes = [await stack.compactions.outcome(each, WAIT_SECONDS) for each in others]
        assert len(server.received) == 1

    assert {outcome.status for outcome in outcomes} == {"nothing_to_do"}
    assert all(outcome.advanced for outcome in outcomes), "an overflow is worth another request"
    (receipt,) = await events_of(stack, "wanted", COMPACTION_RECEIPT)
    assert member(receipt["data"], "trigger") == "pressure"
    cut = await stack.check_surface("wanted")
    assert message.first_seq in cut.nodes, "it stays behind the checkpoint"
    assert len(await events_of(stack, "wanted", "compaction/start")) == 1
    assert await asked(stack) == [("wanted", 0, "pressure-0-0")]


async def test_a_session_that_had_room_for_a_while_is_asked_for_again(
    settings: Settings, spawn: Spawner
) -> None:
    """When the worker came, the window had grown: its outcome is in no log."""
    spawn("sequencer")
    spawn("projector", SURFACELOG_COMPACTION_BACKOFF_SECONDS="1")
    async with connect(settings) as stack:
        await begin(stack, "roomy")
        await fill(stack, "roomy")
        await until_asked(stack, 1)
        receipt = await stack.owner("roomy", window(WINDOW * 2))
        await stack.read("roomy", receipt.last_seq or 0)
        spawn("compactor").wait_line("request done")
        assert await events_of(stack, "roomy", "compaction/start") == []

        await stack.owner("roomy", window(WINDOW))
        await write_step(stack, "roomy", 8)
        await until_events(stack, "roomy", COMPACTION_RECEIPT, 1)
        ids = [request_id for _, _, request_id in await asked(stack)]
        assert ids == ["pressure-0-0", "pressure-0-1"]


async def test_a_request_whose_outcome_was_lost_with_redis_is_not_waited_for(
    settings: Settings, own_redis: PrivateRedis, spawn: Spawner
) -> None:
    """Seen to fail: the topic says that it was asked for, so nobody asked ever again."""
    async with full_session(settings, own_redis, spawn) as (stack, projector, redis):
        await until_asked(stack, 1)
        assert projector.terminate() == 0
        # Its own policy leaves this worker no room: the outcome is in no log.
        unwilling = spawn("compactor", SURFACELOG_COMPACTION_RETAIN_TOKENS=str(WINDOW), **redis)
        assert "nothing could be compacted" in unwilling.wait_line("request done")
        assert unwilling.terminate() == 0
        own_redis.flushall()
        spawn("projector", SURFACELOG_COMPACTION_BACKOFF_SECONDS="1", **redis)
        spawn("compactor", **redis)
        await write_step(stack, "full", 8)
        await until_events(stack, "full", COMPACTION_RECEIPT, 1)

        ids = [request_id for _, _, request_id in await asked(stack)]
        assert ids == ["pressure-0-0", "pressure-0-1"]


async def test_a_session_that_cannot_shrink_says_so_once_until_something_changes(
    stack: Stack, spawn: Spawner
) -> None:
    spawn("compactor")
    await begin(stack, "stuck", system="x" * 13_000)
    await write_step(stack, "stuck", 1)
    (said,) = await until_events(stack, "stuck", NO_PROGRESS, 1)
    assert "system prompt, tools and the last message alone" in str(member(said["data"], "reason"))
    assert member(said["data"], "requestId") == "pressure-0-0"
    await stack.read("stuck", await write_step(stack, "stuck", 2, LONG * 3))
    assert len(await asked(stack)) == 1

    await stack.owner("stuck", header("y" * 14_000))
    await write_step(stack, "stuck", 3)
    assert len(await until_events(stack, "stuck", NO_PROGRESS, 2)) == 2
    assert await events_of(stack, "stuck", "compaction/start") == []

    await stack.owner("stuck", header("be brief"))
    await stack.read("stuck", await write_step(stack, "stuck", 4, LONG * 4))
    await until_events(stack, "stuck", COMPACTION_RECEIPT, 1)
    assert len(await events_of(stack, "stuck", NO_PROGRESS)) == 2
