"""Positions, heartbeats and offsets of the projector on real services."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from redis import Redis
from tests.live_session import user
from tests.log_feed import LogFeed

from surfacelog.projections.keys import Keys
from surfacelog.projections.reader import SurfaceReader
from surfacelog.schemas.bounded_call import close_in_time
from surfacelog.schemas.json_text import loads
from surfacelog.schemas.records import Receipt
from surfacelog.schemas.registry import connect_codec
from surfacelog.schemas.topics import partition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.private_redis import PrivateRedis
    from tests.processes import Spawner

    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

SESSIONS = [f"s{number}" for number in range(8)]


@pytest.fixture
def settings(settings: Settings, own_redis: PrivateRedis) -> Settings:
    return settings.model_copy(update={"redis": own_redis.url})


@pytest.fixture
def feed(settings: Settings) -> LogFeed:
    return LogFeed(settings, connect_codec(settings))


@pytest.fixture
def redis(own_redis: PrivateRedis) -> Iterator[Redis]:
    with Redis.from_url(own_redis.url, decode_responses=True, socket_timeout=5) as client:
        yield client


async def check_all(settings: Settings, feed: LogFeed) -> None:
    async with await SurfaceReader.connect(settings) as reader:
        for session_id in feed.written:
            last = feed.next_seq(session_id) - 1
            feed.check(await reader.read(session_id, at_least=last, timeout=30))


def wait_until(condition: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def write_some(feed: LogFeed) -> None:
    feed.append_all([(session_id, (user(),)) for session_id in SESSIONS])


async def test_idle_offsets_and_positions_are_the_end_of_the_log(
    settings: Settings, feed: LogFeed, spawn: Spawner, redis: Redis
) -> None:
    spawn("projector")
    write_some(feed)
    feed.transaction(feed.batch("s0", (user("ABORTED"),), 1), abort=True)
    await check_all(settings, feed)
    group = f"{settings.namespace}.projector"
    consumer = Consumer({"bootstrap.servers": settings.kafka, "group.id": group})
    places = [TopicPartition(settings.topics.events, p) for p in range(4)]

    def is_exact() -> bool:
        committed = [place.offset for place in consumer.committed(places, timeout=10)]
        ends = [consumer.get_watermark_offsets(place, timeout=10)[1] for place in places]
        kept = [redis.hget(Keys(settings.namespace).position(p), "offset") for p in range(4)]
        return [max(offset, 0) for offset in committed] == ends == [int(k or 0) for k in kept]

    await asyncio.to_thread(wait_until, is_exact)
    close_in_time("the consumer", consumer.close)


async def test_a_node_that_lost_its_newest_data_is_replayed_from_its_last_heartbeat(
    settings: Settings, feed: LogFeed, spawn: Spawner, redis: Redis
) -> None:
    projector = spawn("projector")
    write_some(feed)
    await check_all(settings, feed)
    keys = Keys(settings.namespace)
    partition = partition_of("s0", 4)
    wait_until(lambda: redis.hget(keys.position(partition), "beat:0") is not None)
    redis.delete(*keys.session_keys("s0"))
    redis.hset(keys.heartbeat("0"), str(partition), "0 0")
    projector.wait_line("replaying")
    await check_all(settings, feed)


async def test_a_lost_list_of_sessions_is_a_loss(
    settings: Settings, feed: LogFeed, spawn: Spawner, redis: Redis
) -> None:
    projector = spawn("projector")
    write_some(feed)
    await check_all(settings, feed)
    keys = Keys(settings.namespace)
    partition = partition_of("s0", 4)
    wait_until(lambda: bool(redis.hexists(keys.watermarks(partition), "s0")))
    redis.delete(keys.watermarks(partition), *keys.session_keys("s0"))
    projector.wait_line("replaying")
    await check_all(settings, feed)


async def test_a_position_of_another_log_fails_loudly(
    settings: Settings, feed: LogFeed, spawn: Spawner, redis: Redis
) -> None:
    write_some(feed)
    key = Keys(settings.namespace).position(0)
    redis.hset(key, mapping={"offset": 0, "topic": "another"})
    other = spawn("projector", ready="belongs to topic id another")
    assert other.wait_exit() == 1
    redis.delete(key)
    redis.hset(key, "offset", 10_000)
    redis.hset(Keys(settings.namespace).watermarks(0), "", -1)
    beyond = spawn("projector", ready="beyond the log's end")
    assert beyond.wait_exit() == 1


async def test_a_redis_that_evicts_is_refused(spawn: Spawner, redis: Redis) -> None:
    redis.config_set("maxmemory-policy", "allkeys-lru")
    refused = spawn("projector", ready="noeviction")
    assert refused.wait_exit() == 1


async def test_two_projectors_share_the_log_and_one_takes_over(
    settings: Settings, feed: LogFeed, spawn: Spawner
) -> None:
    one = spawn("projector")
    write_some(feed)
    spawn("projector")
    for _ in range(5):
        write_some(feed)
    await check_all(settings, feed)
    one.kill()
    for _ in range(5):
        write_some(feed)
    await check_all(settings, feed)


async def test_receipts_reach_the_stream_of_their_writer(
    settings: Settings, spawn: Spawner, redis: Redis
) -> None:
    codec = connect_codec(settings)
    receipt = Receipt("s", "w1", 0, 0, "refused", code="order", message="a gap")
    producer = Producer({"bootstrap.servers": settings.kafka})
    producer.produce(settings.topics.receipts, b"garbage", key=b"s", partition=1)
    producer.produce(settings.topics.receipts, codec.encode_receipt(receipt), key=b"s", partition=1)
    assert producer.flush(15) == 0
    spawn("projector")
    stream = Keys(settings.namespace).receipts("w1")
    wait_until(lambda: bool(redis.exists(stream)))
    entries: Any = redis.xrange(stream)
    ((_, fields),) = entries
    assert loads(fields["receipt"]) == asdict(receipt)
    assert 0 < redis.ttl(stream) <= 24 * 60 * 60
