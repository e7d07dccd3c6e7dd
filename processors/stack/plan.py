"""The plan of one stack: what never changes between its runs (brokers, ports, cluster id)."""

from __future__ import annotations

import base64
import json
import random
import socket
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from surfacelog.processors.stack.errors import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST: Final = "127.0.0.1"
PORTS: Final = range(20_000, 32_000)
"""Below the ports that systems hand out to outgoing connections, so that a kept port stays free."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The ports and the identity of a stack; one entry of the port tuples per broker."""

    cluster_id: str
    broker_ports: tuple[int, ...]
    controller_ports: tuple[int, ...]
    registry_port: int
    redis_port: int

    @classmethod
    def new(cls, brokers: int) -> Plan:
        """Plan a stack on ports that are free now."""
        ports = free_ports()
        return cls(
            cluster_id=_random_cluster_id(),
            broker_ports=tuple(next(ports) for _ in range(brokers)),
            controller_ports=tuple(next(ports) for _ in range(brokers)),
            registry_port=next(ports),
            redis_port=next(ports),
        )

    @property
    def brokers(self) -> int:
        """The number of Kafka nodes."""
        return len(self.broker_ports)

    @property
    def kafka_url(self) -> str:
        """Bootstrap servers."""
        return ",".join(f"{HOST}:{port}" for port in self.broker_ports)

    @property
    def registry_url(self) -> str:
        """Base URL of the registry's Confluent API."""
        return f"http://{HOST}:{self.registry_port}/apis/ccompat/v7"

    @property
    def redis_url(self) -> str:
        """URL of the Redis database."""
        return f"redis://{HOST}:{self.redis_port}/0"

    @property
    def settings(self) -> dict[str, str | int]:
        """The values that `Settings` takes from this stack, by field name."""
        return {
            "kafka": self.kafka_url,
            "registry": self.registry_url,
            "redis": self.redis_url,
            "replication": self.brokers,
        }

    def save(self, path: Path) -> None:
        """Write the plan so that a reader sees all of it or nothing."""
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self), indent=2) + "\n")
        draft.rename(path)


def load_plan(path: Path) -> Plan | None:
    """Read a saved plan; None when there is none."""
    try:
        saved = json.loads(path.read_text())
        return Plan(
            cluster_id=saved["cluster_id"],
            broker_ports=tuple(saved["broker_ports"]),
            controller_ports=tuple(saved["controller_ports"]),
            registry_port=saved["registry_port"],
            redis_port=saved["redis_port"],
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StackError(f"{path} is not the plan of a stack: {error!r}. Remove it.") from error


def free_port() -> int:
    """Return one port that is free now."""
    return next(free_ports())


def free_ports() -> Iterator[int]:
    """Yield ports that are free now, in random order, each once."""
    return (port for port in random.sample(PORTS, len(PORTS)) if is_free(port))


def is_free(port: int) -> bool:
    """Say whether a server could listen on the port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _random_cluster_id() -> str:
    """Return 16 random bytes as Kafka writes them (a leading dash would look like an option)."""
    cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return cluster_id if not cluster_id.startswith("-") else _random_cluster_id()
