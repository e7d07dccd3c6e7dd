"""Whether the services of a stack answer."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from redis import Redis
from redis.exceptions import RedisError

if TYPE_CHECKING:
    from surfacelog.processors.stack.plan import Plan

ANSWER_SECONDS: Final = 1.0


def kafka_answers(plan: Plan) -> bool:
    """Say whether this stack's own cluster answers, with all its brokers."""
    # Refused connections are what we ask about: the client must not log them.
    admin = AdminClient({"bootstrap.servers": plan.kafka_url, "log_level": 0})
    try:
        cluster = admin.list_topics(timeout=ANSWER_SECONDS)
    except KafkaException:
        return False
    return str(cluster.cluster_id) == plan.cluster_id and len(cluster.brokers) == plan.brokers


def registry_answers(plan: Plan) -> bool:
    """Say whether the registry lists its subjects, which it can only after reading its topic."""
    try:
        with urllib.request.urlopen(f"{plan.registry_url}/subjects", timeout=ANSWER_SECONDS) as got:
            return bool(got.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def redis_answers(plan: Plan) -> bool:
    """Say whether Redis answers and has loaded its data."""
    with Redis.from_url(plan.redis_url, socket_timeout=ANSWER_SECONDS) as client:
        try:
            return bool(client.ping())
        except RedisError:
            return False
