"""What the projector asks of the Redis that it writes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from redis.asyncio import RedisCluster

from surfacelog.schemas.errors import ServiceError

if TYPE_CHECKING:
    from surfacelog.projections.redis_calls import RedisClient

HASH_SLOTS: Final = 16_384


class EvictionError(ServiceError):
    """Redis may drop keys when memory is short: a projection would lose parts of sessions."""

    code = "eviction"


async def require_noeviction(client: RedisClient) -> None:
    """Raise EvictionError unless every node keeps what it was given."""
    for node in _nodes(client):
        policy = (await node.execute_command("INFO", "memory")).get("maxmemory_policy")
        if policy != "noeviction":
            raise EvictionError(
                f"Redis runs with maxmemory-policy {policy}: set it to noeviction, "
                "so that no part of a session is dropped"
            )


async def heartbeat_tags(client: RedisClient) -> tuple[str, ...]:
    """Return, for every node that holds data, a hash tag whose slot is on that node."""
    if not isinstance(client, RedisCluster):
        return ("0",)
    await client.initialize()
    tags: dict[str, str] = {}
    primaries = client.get_primaries()
    for number in range(HASH_SLOTS * 4):
        if len(tags) == len(primaries):
            break
        node = client.get_node_from_key(f"{{{number}}}")
        if node is not None:
            tags.setdefault(node.name, str(number))
    return tuple(tags.values())


def _nodes(client: RedisClient) -> list[Any]:
    if isinstance(client, RedisCluster):
        return list(client.get_primaries())
    return [client]
