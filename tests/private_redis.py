"""A Redis that belongs to one test."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from surfacelog.processors.stack.plan import free_port
from surfacelog.processors.stack.redis_server import redis_command
from tests.processes import end_process

if TYPE_CHECKING:
    from pathlib import Path

ANSWER_SECONDS = 5.0
STOP_SECONDS = 10.0


class PrivateRedis:
    """A Valkey or Redis server on a port and in a directory of its own; data survives a stop."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    def start(self, timeout: float = 10.0) -> None:
        """Start the server and return when it has loaded its data."""
        self._directory.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            redis_command(self._directory, self._port), stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + timeout
        while not self._answers():
            assert self._process.poll() is None, "the private Redis ended while starting"
            assert time.monotonic() < deadline, "the private Redis did not answer"
            time.sleep(0.02)

    def stop(self) -> None:
        """Stop the server as an operator would; does nothing when it is down."""
        if self._process is not None:
            end_process(self._process, STOP_SECONDS)
            self._process = None

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
            self._process = None

    def flushall(self) -> None:
        """Remove every key."""
        with Redis.from_url(self.url, socket_timeout=ANSWER_SECONDS) as client:
            client.flushall()

    def _answers(self) -> bool:
        with Redis.from_url(self.url, socket_timeout=ANSWER_SECONDS) as client:
            try:
                return bool(client.ping())
            except RedisConnectionError:  # BusyLoadingError, while it reads its data, is one too
                return False
