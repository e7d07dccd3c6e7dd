"""Redis as the projections use it: Lua scripts and pipelines of one round trip (DESIGN 6)."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from redis.asyncio import Redis, RedisCluster
from redis.exceptions import (
    BusyLoadingError,
    ClusterDownError,
    MaxConnectionsError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import (
    ConnectionError as RedisConnectionError,
)
from redis.exceptions import (
    TimeoutError as RedisTimeoutError,
)

from surfacelog.schemas.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

RedisClient: TypeAlias = "Redis | RedisCluster"
Argument: TypeAlias = "str | bytes | int"
Command: TypeAlias = "tuple[Argument, ...]"

SCRIPTS: Final = ("apply", "asked", "audit", "position", "read", "state")

_UNAVAILABLE: Final = (
    RedisConnectionError,
    RedisTimeoutError,
    BusyLoadingError,
    ClusterDownError,
    MaxConnectionsError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    TryAgainError,
    OSError,
)
# Answers that redis-py has no class for: a failover or a full disk, over after a while.
_UNAVAILABLE_PREFIXES: Final = ("MISCONF", "OOM", "MASTERDOWN", "NOREPLICAS", "LOADING")


class RedisUnavailableError(ServiceError):
    """Redis cannot answer now. The same call may be repeated: nothing depends on how often."""


async def connect_redis(url: str) -> RedisClient:
    """Return a client for a single node or, when the node says it belongs to one, the cluster.

    Raises RedisUnavailableError when nothing answers at `url`.
    """
    node: Redis = Redis.from_url(url, socket_timeout=5, socket_connect_timeout=3)
    try:
        clustered = (await node.info("cluster")).get("cluster_enabled")
    except _UNAVAILABLE as error:
        await node.aclose()
        raise RedisUnavailableError(f"Redis at {url} does not answer: {error}") from error
    if not clustered:
        return node
    await node.aclose()
    return RedisCluster.from_url(url, socket_timeout=5, socket_connect_timeout=3)


def _is_unavailable(error: RedisError | OSError) -> bool:
    return isinstance(error, _UNAVAILABLE) or str(error).startswith(_UNAVAILABLE_PREFIXES)


class RedisCalls:
    """Runs commands in pipelines. Scripts are loaded when the server does not know them."""

    def __init__(self, client: RedisClient) -> None:
        self.client = client
        folder = files("surfacelog.projections") / "lua"
        self._texts = {name: (folder / f"{name}.lua").read_text() for name in SCRIPTS}
        self._digests = {
            name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            for name, text in self._texts.items()
        }

    def script(self, name: str, keys: Sequence[str], arguments: Sequence[Argument]) -> Command:
        """Return the command that runs one of the scripts in `projections/lua`."""
        return ("EVALSHA", self._digests[name], len(keys), *keys, *arguments)

    async def run(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands in order in one round trip; return their answers.

        An answer that is a ResponseError stands in its place: the others were carried out.
        Raises RedisUnavailableError; any part of the commands may have been carried out then.
        """
        if not commands:
            return []
        try:
            answers = await self._pipelined(commands)
            if any(isinstance(answer, NoScriptError) for answer in answers):
                await self._load_scripts()
                answers = await self._pipelined(commands)
        except (RedisError, OSError) as error:
            if _is_unavailable(error):
                raise RedisUnavailableError(f"Redis does not answer: {error}") from error
            raise
        for answer in answers:
            if isinstance(answer, RedisError) and _is_unavailable(answer):
                raise RedisUnavailableError(f"Redis cannot write now: {answer}") from answer
        return answers

    async def one(self, command: Command) -> Any:
        """Run one command; raises what `run` raises, and ServiceError when it is refused."""
        (answer,) = await self.run([command])
        if isinstance(answer, ResponseError):
            raise ServiceError(f"Redis refused {command[0]!r}: {answer}") from answer
        return answer

    async def _pipelined(self, commands: Sequence[Command]) -> list[Any]:
        pipeline: Any = self.client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers

    async def _load_scripts(self) -> None:
        for text in self._texts.values():
            await self.client.script_load(text)
