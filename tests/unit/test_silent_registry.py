"""A schema registry that takes connections and answers nothing."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from surfacelog.schemas import registry
from surfacelog.schemas.registry import ForeignSchemas, RegistryError, connect_codec
from surfacelog.schemas.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER_SECONDS = 0.2


@pytest.fixture
def url() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.timeout(20)
def test_it_is_not_waited_for_for_ever(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "ANSWER_SECONDS", ANSWER_SECONDS)
    settings = Settings().model_copy(update={"registry": url})
    with pytest.raises(RegistryError, match="does not answer"):
        connect_codec(settings)


def test_one_question_tells_that_it_is_away(url: str) -> None:
    """A batch of records with foreign schemas must not wait for each of them."""
    config = {"url": url, "timeout": ANSWER_SECONDS, "max.retries": 0}
    foreign = ForeignSchemas(SchemaRegistryClient(config))
    started = time.monotonic()
    for schema_id in range(100):
        with pytest.raises(RegistryError):
            foreign(schema_id)
    assert time.monotonic() - started < 10 * ANSWER_SECONDS
