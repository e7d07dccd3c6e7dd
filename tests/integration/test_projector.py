"""The projector against real Kafka and Redis, with everything that can be lost being lost."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from redis import Redis
from tests.live_session import assistant, run, step_start, turn_start, user
from tests.log_feed import LogFeed
from tests.log_maker import request_header

from surfacelog.projections.keys import Keys
from surfacelog.projections.reader import SurfaceReader
from surfacelog.schemas.json_value import object_member
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.private_redis import PrivateRedis
    from tests.processes import Spawner

    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

SESSIONS = [f"s{number}" for number in range(12)]


@pytest.fixture
def settings(settings: Settings, own_redis: PrivateRedis) -> Settings:
    """The test's own namespace, projected into a Redis that it may break."""
    return settings.model_copy(update={"redis": own_redis.url})


@pytest.fixture
def feed(settings: Settings) -> LogFeed:
    return LogFeed(settings, connect_codec(settings))


@pytest.fixture
def redis(own_redis: PrivateRedis) -> Iterator[Redis]:
    with Redis.from_url(own_redis.url, decode_responses=True, socket_timeout=5) as client:
        yield client


async def check_all(
    settings: Settings, feed: LogFeed, what: str, began: float | None = None
) -> None:
    """Wait until every session is as its log says, and print how long that took."""
    began = time.monotonic() if began is None else began
    async with await SurfaceReader.connect(settings) as reader:
        for session_id in feed.written:
            last = feed.next_seq(session_id) - 1
            feed.check(await reader.read(session_id, at_least=last, timeout=30))
    print(f"{what}: right after {time.monotonic() - began:.2f} s")


def wait_until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def noted(redis: Redis, keys: Keys, session_id: str) -> None:
    """Wait until the projector has noted the session beside its position: it is at rest then."""

    def is_noted() -> bool:
        return any(redis.hexists(keys.watermarks(p), session_id) for p in range(4))

    await asyncio.to_thread(wait_until, is_noted)


def write_sessions(feed: LogFeed, seed: int) -> None:
    print(f"seed {seed}")
    feed.sessions(SESSIONS, random.Random(seed))


async def test_every_session_is_as_its_log_says(
    settings: Settings, feed: LogFeed, spawn: Spawner
) -> None:
    projector = spawn("projector")
    write_sessions(feed, 1)
    await check_all(settings, feed, "projected")
    assert projector.terminate() == 0


async def test_an_aborted_append_is_never_projected(
    settings: Settings, feed: LogFeed, spawn: Spawner
) -> None:
    spawn("projector")
    feed.append("s", (user("one"),))
    feed.transaction(feed.batch("s", (user("ABORTED"),), 1), abort=True)
    feed.append("s", (user("two"),))
    await check_all(settings, feed, "projected around an abort")


async def test_redis_emptied_while_everything_runs(
    settings: Settings, feed: LogFeed, spawn: Spawner, own_redis: PrivateRedis
) -> None:
    projector = spawn("projector")
    write_sessions(feed, 2)
    await check_all(settings, feed, "before")
    own_redis.flushall()
    feed.append_all([(session_id, (user("more"),)) for session_id in SESSIONS])
    await check_all(settings, feed, "FLUSHALL while writing")
    assert "session parked" not in projector.output()


async def test_redis_emptied_while_all_writers_rest(
    settings: Settings, feed: LogFeed, spawn: Spawner, own_redis: PrivateRedis
) -> None:
    spawn("projector")
    write_sessions(feed, 3)
    await check_all(settings, feed, "before")
    own_redis.flushall()
    await check_all(settings, feed, "FLUSHALL at rest")


async def test_redis_emptied_while_the_projector_is_down(
    settings: Settings, feed: LogFeed, spawn: Spawner, own_redis: PrivateRedis
) -> None:
    projector = spawn("projector")
    write_sessions(feed, 4)
    await check_all(settings, feed, "before")
    projector.kill()
    own_redis.flushall()
    spawn("projector")
    await check_all(settings, feed, "FLUSHALL while down")


async def test_an_older_dump_is_restored_while_the_projector_runs(
    settings: Settings,
    feed: LogFeed,
    spawn: Spawner,
    own_redis: PrivateRedis,
    redis: Redis,
    tmp_path: Path,
) -> None:
    spawn("projector")
    write_sessions(feed, 5)
    await check_all(settings, feed, "before")
    redis.save()
    dump = next((tmp_path / "redis").rglob("*.rdb"))
    older = shutil.copy(dump, tmp_path / "older.rdb")
    feed.append_all([(session_id, (user("after the dump"),)) for session_id in SESSIONS])
    await check_all(settings, feed, "after the dump")
    own_redis.kill()
    shutil.rmtree(tmp_path / "redis" / "appendonlydir", ignore_errors=True)
    shutil.copy(older, dump)
    own_redis.start()
    await check_all(settings, feed, "older dump restored")


async def test_keys_of_one_session_are_deleted_at_rest(
    settings: Settings, feed: LogFeed, spawn: Spawner, redis: Redis
) -> None:
    projector = spawn("projector")
    write_sessions(feed, 7)
    await check_all(settings, feed, "before")
    keys = Keys(settings.namespace)
    await noted(redis, keys, "s3")
    losses = ["mnvphctix", "m", "n", "v", "p", "h", "t"]
    for number, letters in enumerate(losses, start=1):
        assert redis.delete(*(keys.session("s3", letter) for letter in letters))
        began = time.monotonic()
        projector.wait_line("session goes on", count=number)
        await check_all(settings, feed, f"keys {letters} of one session deleted", began)


async def test_the_projector_is_killed_in_the_middle_of_a_step(
    settings: Settings, feed: LogFeed, spawn: Spawner
) -> None:
    rng = random.Random(8)
    for round_number in range(3):
        projector = spawn("projector")
        feed.sessions([f"r{round_number}-{n}" for n in range(6)], rng)
        feed.append_all([(f"open-{round_number}", (turn_start(), step_start()))])
        feed.append_all([(f"open-{round_number}", (run("abc", "defg"),))])
        projector.kill()
    spawn("projector")
    # The message cites chunks that the new projector has not seen: it must ask the log for them.
    message = assistant(sourceEventSeqs=[2, 3])
    usage: JsonObject = {"inputTokens": 50, "outputTokens": 5}
    answered = (request_header("be brief"), message)
    message["data"] = {**object_member(message, "data"), "usage": usage}
    feed.append_all([(f"open-{number}", answered) for number in range(3)])
    await check_all(settings, feed, "after three kill -9")


async def test_redis_is_away_for_a_while(
    settings: Settings, feed: LogFeed, spawn: Spawner, own_redis: PrivateRedis
) -> None:
    projector = spawn("projector")
    write_sessions(feed, 9)
    await check_all(settings, feed, "before")
    own_redis.stop()
    feed.append_all([(session_id, (user("meanwhile"),)) for session_id in SESSIONS])
    projector.wait_line("redis unavailable")
    own_redis.start()
    await check_all(settings, feed, "Redis came back")


async def test_a_record_that_cannot_be_applied_parks_its_session_only(
    settings: Settings, feed: LogFeed, spawn: Spawner, redis: Redis
) -> None:
    projector = spawn("projector")
    feed.append_all([("bad", (user(),)), ("good", (user(),))])
    # On the same partition, whatever it is: nothing of it may stop the others.
    feed.transaction(feed.batch("bad", (user(op={"op": "replace", "start": 9, "end": 9}),), 1))
    feed.append_all([(session_id, (user("more"),)) for session_id in ["good", *SESSIONS]])
    projector.wait_line("session parked")
    bad = feed.written.pop("bad")
    await check_all(settings, feed, "others beside a parked session")
    keys = list(redis.scan_iter(f"{settings.namespace}:parked:*"))
    (parked,) = [json.loads(text) for key in keys for text in redis.hgetall(key).values()]
    assert (parked["seq"], parked["code"]) == (1, "corrupt")
    projector.kill()
    again = spawn("projector")
    again.wait_line("session parked")
    assert redis.hget(Keys(settings.namespace).session("bad", "m"), "watermark") == "0"
    assert len(bad) == 1


async def test_a_gap_is_filled_from_the_log(
    settings: Settings, feed: LogFeed, spawn: Spawner, redis: Redis
) -> None:
    projector = spawn("projector")
    write_sessions(feed, 10)
    await check_all(settings, feed, "before")
    # As if the session's last appends had been lost by a failover that kept everything else.
    keys = Keys(settings.namespace)
    redis.delete(*keys.session_keys("s5"))
    feed.append("s5", (user("after the hole"),))
    projector.wait_line("session parked")
    await check_all(settings, feed, "gap filled")
    projector.wait_line("session goes on")


async def test_batches_come_again_and_out_of_order(
    settings: Settings, feed: LogFeed, spawn: Spawner
) -> None:
    projector = spawn("projector")
    first = feed.batch("s", (user("one"),), 0)
    feed.append_all([("s", (user("one"),)), ("s", (user("two"),)), ("s", (user("three"),))])
    feed.transaction(first, feed.batch("s", (user("two"),), 1), first)
    feed.append("s", (user("four"),))
    await check_all(settings, feed, "repeated batches")
    assert "session parked" not in projector.output()


async def test_readers_are_woken_even_when_notifications_are_lost(
    settings: Settings, feed: LogFeed, spawn: Spawner, redis: Redis
) -> None:
    spawn("projector")
    async with await SurfaceReader.connect(settings) as reader:
        waiting = asyncio.create_task(reader.wait_visible("s", 0, 20))
        channel = Keys(settings.namespace).watermark_channel("s")
        await asyncio.to_thread(wait_until, lambda: bool(redis.pubsub_numsub(channel)[0][1]))
        redis.client_kill_filter(_type="pubsub")
        await asyncio.to_thread(feed.append, "s", (user(),))
        began = time.monotonic()
        assert await waiting == 0
        print(f"visible {time.monotonic() - began:.2f} s after the append")


async def test_keys_that_hold_something_else_are_made_anew(
    settings: Settings, feed: LogFeed, spawn: Spawner, redis: Redis
) -> None:
    projector = spawn("projector")
    write_sessions(feed, 12)
    await check_all(settings, feed, "before")
    projector.kill()
    keys = Keys(settings.namespace)
    redis.delete(keys.session("s1", "m"), keys.session("s2", "n"))
    redis.set(keys.session("s1", "m"), "not a hash")
    redis.set(keys.session("s2", "n"), "not a list")
    again = spawn("projector")
    feed.append_all([(session_id, (user("more"),)) for session_id in SESSIONS])
    again.wait_line("session goes on", count=2)
    await check_all(settings, feed, "keys of another type")
