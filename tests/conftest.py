"""Fixtures that tests of real services share."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from surfacelog.processors.stack.errors import StackError
from surfacelog.producers.bootstrap import create_namespace
from surfacelog.schemas.settings import Settings
from tests.private_redis import PrivateRedis
from tests.processes import Spawner
from tests.running_services import running_services

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of running services, one set for the whole run.

    With SURFACELOG_TEST_STACK=1 those that the environment names, else services of this run's own.
    """
    if os.environ.get("SURFACELOG_TEST_STACK") == "1":
        yield Settings()
        return
    with ExitStack() as running:
        try:
            settings = running.enter_context(running_services(tmp_path_factory.mktemp("stack")))
        except StackError as error:
            pytest.exit(f"no services: {error.message}", returncode=1)
        yield settings


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
    admin.delete_topics(
        list(own.topics.all), request_timeout=15
    )  # a broker with thousands of partitions is slow


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
