"""A Redis Cluster of three nodes that belongs to one test."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from surfacelog.processors.stack.plan import free_port
from surfacelog.processors.stack.redis_server import redis_command

if TYPE_CHECKING:
    from pathlib import Path

NODES = 3
SLOTS = 16_384


class PrivateCluster:
    """Three primaries without replicas, which share the slots."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.ports = [free_port() for _ in range(NODES)]
        self.nodes: list[Redis] = [
            Redis(port=port, decode_responses=True, socket_timeout=5) for port in self.ports
        ]
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = f"redis://127.0.0.1:{self.ports[0]}/0"

    def start(self) -> None:
        for port in self.ports:
            home = self._directory / str(port)
            home.mkdir(parents=True)
            command = [*redis_command(home, port), "--cluster-enabled", "yes"]
            self._processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
        for node in self.nodes:
            _wait_until(lambda node=node: _answers(node))
        for number, node in enumerate(self.nodes):
            first, last = SLOTS * number // NODES, SLOTS * (number + 1) // NODES - 1
            _ask(node, "ADDSLOTS", *range(first, last + 1))
            _ask(self.nodes[0], "MEET", "127.0.0.1", self.ports[number])
        for node in self.nodes:
            _wait_until(lambda node=node: _is_formed(node))

    def stop(self) -> None:
        for node, process in zip(self.nodes, self._processes, strict=True):
            node.close()
            process.terminate()
            process.wait(10)


def _ask(node: Redis, *arguments: Any) -> str:
    client: Any = node  # its commands are not typed
    return str(client.execute_command("CLUSTER", *arguments))


def _answers(node: Redis) -> bool:
    try:
        return bool(node.ping())
    except RedisConnectionError:
        return False


def _is_formed(node: Redis) -> bool:
    state = _ask(node, "INFO")
    return "cluster_state:ok" in state and f"cluster_known_nodes:{NODES}" in state


def _wait_until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "the private cluster did not form"
        time.sleep(0.05)
