from __future__ import annotations

from typing import TYPE_CHECKING

from redis import Redis

if TYPE_CHECKING:
    from tests.private_redis import PrivateRedis


def test_a_private_redis_keeps_its_data_across_a_stop_and_evicts_nothing(
    own_redis: PrivateRedis,
) -> None:
    client = Redis.from_url(own_redis.url, decode_responses=True, socket_timeout=5)
    client.set("key", "value")
    own_redis.stop()
    own_redis.start()
    assert client.get("key") == "value"
    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
