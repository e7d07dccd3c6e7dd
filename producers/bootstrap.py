"""Making a namespace: its seven topics, with their sizes and retention (DESIGN 3).

The partition count is pinned when the namespace is made and never grown: a session lives on the
partition of its id, so another count would move most sessions. The pin is the count of the
topics themselves, which must agree among all seven; everyone who depends on it asks
`pinned_partitions`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, TopicMetadata
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_fixed

from surfacelog.schemas.errors import ServiceError, SurfacelogError
from surfacelog.schemas.topics import REQUEST_RETENTION_MS, Topics

if TYPE_CHECKING:
    from surfacelog.schemas.settings import Settings

RECORD_MARGIN_BYTES: Final = 1024 * 1024
"""What topics and clients allow beyond the largest append: envelope, receipt fields, headers."""

RECEIPT_RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
CALL_SECONDS: Final = 15.0
ANSWER_SECONDS: Final = 40.0
"""After this time an answer will not come, whatever the client's own limits should do."""

SETTLE_SECONDS: Final = 20.0

_log = structlog.get_logger()


class NamespaceError(SurfacelogError):
    """The topics of a namespace are missing, or do not agree with each other or the settings."""

    code = "namespace"


class _UnsettledError(Exception):
    """The brokers do not tell about all topics yet."""


def max_record_bytes(settings: Settings) -> int:
    """Return the size limit of topics and clients: the largest append and a margin of 1 MiB."""
    return settings.max_append_bytes + RECORD_MARGIN_BYTES


def create_namespace(settings: Settings, patience: float = CALL_SECONDS) -> int:
    """Make the topics that are missing; return the pinned partition count.

    `patience` is how many seconds Kafka has to give its first answer.

    Safe to repeat and to run at once from several processes. An existing namespace keeps its
    count, whatever `settings.partitions` says. Raises NamespaceError when existing topics
    disagree or allow smaller records than the settings, ServiceError when Kafka does not answer.
    """
    admin = _admin(settings)
    found = _described(admin, settings, patience)
    partitions = _agreed_count(settings.topics, found) if found else settings.partitions
    missing = [name for name in _configs(settings) if name not in found]
    _create(admin, settings, missing, partitions)
    if found:
        _check_sizes(admin, settings, sorted(found))
    if missing:
        _log.info("namespace made", namespace=settings.namespace, partitions=partitions)
    return _settled_count(admin, settings)


def pinned_partitions(settings: Settings) -> int:
    """Return the partition count of an existing namespace.

    Raises NamespaceError when a topic is missing or the counts disagree, ServiceError when
    Kafka does not answer.
    """
    admin = _admin(settings)
    found = _described(admin, settings)
    missing = [name for name in settings.topics.all if name not in found]
    if missing:
        raise NamespaceError(
            f"the namespace {settings.namespace!r} lacks {', '.join(missing)}; "
            "start a sequencer to make it",
            missing=missing,
        )
    return _agreed_count(settings.topics, found)


def _configs(settings: Settings) -> dict[str, dict[str, str]]:
    topics = settings.topics
    requests = {
        "retention.ms": str(REQUEST_RETENTION_MS),
        # Retention must not depend on the clocks of a fleet of writers.
        "message.timestamp.type": "LogAppendTime",
    }
    answers = {"retention.ms": str(RECEIPT_RETENTION_MS)}
    configs = {
        **dict.fromkeys(topics.requests, requests),
        topics.events: {"retention.ms": "-1", "retention.bytes": "-1"},
        topics.receipts: answers,
        topics.sessions: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2"},
        topics.compactions: answers,
    }
    shared = {
        "max.message.bytes": str(max_record_bytes(settings)),
        "min.insync.replicas": "2" if settings.replication > 2 else "1",
    }
    return {name: {**own, **shared} for name, own in configs.items()}


def _admin(settings: Settings) -> AdminClient:
    # Below errors: librdkafka prints each failed attempt to connect, and we raise one sentence.
    return AdminClient({"bootstrap.servers": settings.kafka, "log_level": 2})


def _described(
    admin: AdminClient, settings: Settings, patience: float = CALL_SECONDS
) -> dict[str, TopicMetadata]:
    """Return what the cluster knows of the namespace's topics, without those it lacks."""
    try:
        known = admin.list_topics(timeout=patience).topics
    except KafkaException as error:
        raise ServiceError(
            f"Kafka at {settings.kafka} does not answer: {error.args[0].str()}"
        ) from error
    return {name: known[name] for name in settings.topics.all if name in known}


def _agreed_count(topics: Topics, found: dict[str, TopicMetadata]) -> int:
    counts = {name: len(topic.partitions) for name, topic in found.items()}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} has {count}" for name, count in counts.items())
        raise NamespaceError(
            f"the topics of {topics.namespace!r} must have one partition count, but {told}; "
            "a namespace is never grown: make a new one and migrate",
            partitions=counts,
        )
    return next(iter(counts.values()))


def _create(admin: AdminClient, settings: Settings, names: list[str], partitions: int) -> None:
    if not names:
        return
    configs = _configs(settings)
    wanted = [
        NewTopic(name, partitions, settings.replication, config=configs[name]) for name in names
    ]
    asked = admin.create_topics(
        wanted, operation_timeout=CALL_SECONDS, request_timeout=2 * CALL_SECONDS
    )
    for name, made in asked.items():
        try:
            made.result(ANSWER_SECONDS)
        except (KafkaException, TimeoutError) as error:
            # Another process made it meanwhile: the counts are compared afterwards.
            if _code(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                raise ServiceError(f"Kafka did not make the topic {name}: {error}") from error


def _check_sizes(admin: AdminClient, settings: Settings, names: list[str]) -> None:
    needed = max_record_bytes(settings)
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    asked = admin.describe_configs(resources, request_timeout=CALL_SECONDS)
    for resource, described in asked.items():
        try:
            allowed = int(described.result(ANSWER_SECONDS)["max.message.bytes"].value)
        except (KafkaException, TimeoutError) as error:
            raise ServiceError(f"Kafka does not describe {resource.name}: {error}") from error
        if allowed < needed:
            raise NamespaceError(
                f"{resource.name} takes records of {allowed} bytes, but max_append_bytes="
                f"{settings.max_append_bytes} needs {needed}: raise max.message.bytes of all "
                "topics of the namespace, or lower the setting",
                topic=resource.name,
            )


def _code(error: KafkaException | TimeoutError) -> int | None:
    return error.args[0].code() if isinstance(error, KafkaException) else None


@retry(
    retry=retry_if_exception_type(_UnsettledError),
    stop=stop_after_delay(SETTLE_SECONDS),
    wait=wait_fixed(0.05),
    reraise=True,
)
def _settled_count(admin: AdminClient, settings: Settings) -> int:
    """Wait until every partition of every topic has a leader: creation is asynchronous."""
    topics = settings.topics
    found = _described(admin, settings)
    for name in topics.all:
        partitions = found[name].partitions if name in found else {}
        if not partitions or any(partition.leader < 0 for partition in partitions.values()):
            raise _UnsettledError(f"no leader for {name} after {SETTLE_SECONDS:g} s")
    return _agreed_count(topics, found)
