"""Fixtures that tests of real services share."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from surfacelog.producers.bootstrap import create_namespace
from surfacelog.schemas.settings import Settings
from tests.private_redis import PrivateRedis
from tests.processes import Spawner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def services() -> Settings:
    """Settings of running services: those of the environment, else of a stack for this run."""
    if os.environ.get("SURFACELOG_TEST_STACK") == "1":
        return Settings()
    pytest.skip("no stack: source the endpoints and set SURFACELOG_TEST_STACK=1")


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has."""
    return f"t{secrets.token_hex(5)}"


@pytest.fixture
def settings(services: Settings, namespace: str) -> Iterator[Settings]:
    """Settings of a namespace of this test's own, its topics made, with 4 partitions."""
    own = services.model_copy(update={"namespace": namespace, "partitions": 4})
    create_namespace(own)
    yield own
    admin = AdminClient({"bootstrap.servers": own.kafka})
    admin.delete_topics(list(own.topics.all))  # a broker with thousands of partitions is slow


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    """A Redis of this test's own, which it may stop, empty and restart."""
    server = PrivateRedis(tmp_path / "redis")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def spawn(settings: Settings, tmp_path: Path) -> Iterator[Spawner]:
    """Start processes of the product on this test's namespace; all are gone after the test."""
    spawner = Spawner(settings, tmp_path)
    yield spawner
    spawner.kill_all()
