"""Asking for a compaction, and following the request to its outcome (DESIGN 7)."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from confluent_kafka import Producer

from surfacelog.projections.announced import wait_announced
from surfacelog.projections.keys import Keys
from surfacelog.projections.visibility import TimeLimit, while_redis_is_away
from surfacelog.schemas.compaction_outcome import outcome_from_text
from surfacelog.schemas.errors import ServiceError, SurfacelogError
from surfacelog.schemas.records import CompactionRequest

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from surfacelog.projections.redis_calls import RedisCalls
    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.records import SeqRange, Trigger
    from surfacelog.schemas.settings import Settings


DELIVERY_MS: Final = 30_000
POLL_SECONDS: Final = 0.1


class OutcomeTimeout(SurfacelogError):  # noqa: N818  # it is a timeout, and callers say so
    """A request has no outcome yet. It stays on the topic and will be carried out."""

    code: ClassVar[str] = "no_outcome"


class CompactionClient:
    """Sends requests to the compactors and waits for what becomes of them."""

    def __init__(self, settings: Settings, codec: Codec, calls: RedisCalls) -> None:
        self._topic = settings.topics.compactions
        self._codec = codec
        self._calls = calls
        self._keys = Keys(settings.namespace)
        self._producer = Producer(
            {
                "bootstrap.servers": settings.kafka,
                "acks": "all",
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "message.timeout.ms": DELIVERY_MS,
                "linger.ms": 0,
            }
        )

    async def request(
        self,
        session_id: str,
        *,
        generation: int,
        requested_by: str,
        trigger: Trigger = "manual",
        range: SeqRange | None = None,  # noqa: A002  # as the record calls it
        retain_tokens: int | None = None,
    ) -> CompactionRequest:
        """Ask for a compaction of the Surface at `generation`; return when Kafka has the request.

        Without `range` the worker takes all but a tail of about `retain_tokens` (manual requests:
        all but the last node). Raises ServiceError.
        """
        request = CompactionRequest(
            uuid.uuid4().hex, session_id, trigger, generation, requested_by, range, retain_tokens
        )
        await self.send(request)
        return request

    async def send(self, *requests: CompactionRequest) -> list[int]:
        """Put requests on the topic; return their offsets there.

        The same id twice is one request. Raises ServiceError.
        """
        delivered = [self._produce(request) for request in requests]
        while not all(one.done() for one in delivered):
            await asyncio.to_thread(self._producer.poll, POLL_SECONDS)
        return await asyncio.gather(*delivered)

    async def outcome(self, request: CompactionRequest, seconds: float) -> CompactionOutcome:
        """Return what became of a request, however often Redis is away meanwhile.

        Raises OutcomeTimeout after `seconds`, and RedisUnavailableError when it is away then.
        """
        limit = TimeLimit(seconds)
        key = self._keys.outcome(request.session_id, request.request_id)

        async def look() -> CompactionOutcome | None:
            found = await self._calls.one(("GET", key))
            return None if found is None else outcome_from_text(found.decode())

        async def wait() -> CompactionOutcome | None:
            return await wait_announced(self._calls.client, key, look, max(limit.left, 0))

        outcome = await while_redis_is_away(wait, limit)
        if outcome is None:
            raise OutcomeTimeout(
                f"no outcome of request {request.request_id} within {seconds:g} s: is a compactor"
                " running? The request stays and will be carried out",
                request=request.request_id,
            )
        return replace(outcome, asked_generation=request.generation)

    def _produce(self, request: CompactionRequest) -> asyncio.Future[int]:
        loop = asyncio.get_running_loop()
        delivered: asyncio.Future[int] = loop.create_future()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            loop.call_soon_threadsafe(_settle, delivered, error, message.offset())

        payload = self._codec.encode_compaction(request)
        self._producer.produce(
            self._topic, payload, request.session_id.encode(), on_delivery=on_delivery
        )
        return delivered


def _settle(delivered: asyncio.Future[int], error: KafkaError | None, offset: int | None) -> None:
    if delivered.done():
        return
    if error is None and offset is not None:
        delivered.set_result(offset)
    else:
        why = "no offset" if error is None else error.str()
        delivered.set_exception(ServiceError(f"the request did not reach Kafka: {why}"))
