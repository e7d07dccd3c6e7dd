"""Making a namespace on a real broker."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions
from tests.sequencing import wait_until

from surfacelog.producers.bootstrap import (
    NamespaceError,
    create_namespace,
    max_record_bytes,
    pinned_partitions,
)

if TYPE_CHECKING:
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services


@pytest.fixture
def admin(settings: Settings) -> AdminClient:
    return AdminClient({"bootstrap.servers": settings.kafka})


def test_what_exists_keeps_its_count_whatever_the_settings_say(settings: Settings) -> None:
    other = settings.model_copy(update={"partitions": 9})
    assert create_namespace(other) == settings.partitions
    assert pinned_partitions(other) == settings.partitions


def test_several_processes_may_make_it_at_once(settings: Settings) -> None:
    new = settings.model_copy(update={"namespace": f"{settings.namespace}-b", "partitions": 2})
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(create_namespace, [new] * 4))
    assert counts == [2] * 4
    AdminClient({"bootstrap.servers": new.kafka}).delete_topics(list(new.topics.all))


def test_topics_have_their_sizes_and_retention(settings: Settings, admin: AdminClient) -> None:
    def config(topic: str) -> dict[str, str]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        (described,) = admin.describe_configs([resource]).values()
        return {name: entry.value for name, entry in described.result(30).items()}

    for topic in settings.topics.all:
        assert int(config(topic)["max.message.bytes"]) == max_record_bytes(settings)
    assert config(settings.topics.events)["retention.ms"] == "-1"
    assert config(settings.topics.sessions)["cleanup.policy"] == "compact"
    assert config(settings.topics.inbox)["message.timestamp.type"] == "LogAppendTime"


def test_a_topic_that_was_grown_is_refused(settings: Settings, admin: AdminClient) -> None:
    (grown,) = admin.create_partitions([NewPartitions(settings.topics.inbox, 6)]).values()
    grown.result(30)
    wait_until("6 partitions of inbox", lambda: count_of(admin, settings.topics.inbox) == 6)
    with pytest.raises(NamespaceError, match="must have one partition count"):
        create_namespace(settings)
    with pytest.raises(NamespaceError, match="inbox has 6"):
        pinned_partitions(settings)


def count_of(admin: AdminClient, topic: str) -> int:
    return len(admin.list_topics(topic, timeout=10).topics[topic].partitions)


def test_topics_for_smaller_records_are_refused(settings: Settings) -> None:
    larger = settings.model_copy(update={"max_append_bytes": settings.max_append_bytes * 2})
    with pytest.raises(NamespaceError, match=r"raise max\.message\.bytes"):
        create_namespace(larger)


def test_an_unknown_namespace_is_named(settings: Settings) -> None:
    with pytest.raises(NamespaceError, match="lacks nowhere"):
        pinned_partitions(settings.model_copy(update={"namespace": "nowhere"}))
