"""Append requests to Kafka, receipts back from Redis: what every writer is built on (DESIGN 4).

A request lives until it is answered. Kafka may be away (the client retries for ever, in order),
Redis may be away or emptied (late receipts are asked for again), the sequencer may be restarted:
the writer only waits. Memory is bounded; who would exceed it waits too.
"""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Final

import structlog
from confluent_kafka import Producer

from surfacelog.producers.append_queue import AppendQueue, SentAppend
from surfacelog.producers.bootstrap import max_record_bytes, pinned_partitions
from surfacelog.producers.errors import DeliveryError, WriterClosedError
from surfacelog.producers.receipts import ReceiptStream
from surfacelog.producers.room import Room
from surfacelog.projections.keys import Keys
from surfacelog.schemas.registry import connect_codec
from surfacelog.schemas.topics import partition_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from confluent_kafka import KafkaError, Message

    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.errors import SurfacelogError
    from surfacelog.schemas.records import AppendRequest, Receipt
    from surfacelog.schemas.settings import Settings

PATIENCE_SECONDS: Final = 3.0
MAX_MEMORY_BYTES: Final = 64 * 1024 * 1024
CLOSE_SECONDS: Final = 5.0

_log = structlog.get_logger()


class AppendClient:
    """One producer and the receipts of its writers. Used within one event loop.

    `patience` is how many seconds an append waits for its receipt before it is sent again;
    `max_memory` bounds the bytes of all unanswered appends together.
    """

    def __init__(
        self,
        settings: Settings,
        codec: Codec,
        *,
        patience: float = PATIENCE_SECONDS,
        max_memory: int = MAX_MEMORY_BYTES,
    ) -> None:
        self.settings = settings
        self.codec = codec
        self._patience = patience
        self._in_memory = Room(max_memory)
        self._id = f"w-{token_hex(8)}"
        self._used: set[tuple[str, str]] = set()
        self._queues: dict[tuple[str, str], AppendQueue] = {}
        self._streams: dict[str, asyncio.Task[None]] = {}
        self._stopping = threading.Event()
        self._poller: threading.Thread | None = None

    @classmethod
    async def connect(cls, settings: Settings) -> Self:
        """Return a started client with a codec of its own; raises what `start` raises."""
        client = cls(settings, await asyncio.to_thread(connect_codec, settings))
        await client.start()
        return client

    async def start(self) -> None:
        """Connect; safe to repeat. Raises NamespaceError for an unknown namespace, ServiceError."""
        if self._poller is not None:
            return
        self._loop = asyncio.get_running_loop()
        self._partitions = await asyncio.to_thread(pinned_partitions, self.settings)
        self._producer = Producer(
            {
                "bootstrap.servers": self.settings.kafka,
                "partitioner": "murmur2_random",
                "acks": "all",
                "enable.idempotence": True,
                "message.max.bytes": max_record_bytes(self.settings),
                # For ever: a request that Kafka gave up on would have to be sent anew, and then
                # nobody could tell in which order the two were written.
                "message.timeout.ms": 0,
                "queue.buffering.max.messages": 0,
                "linger.ms": 1,
            }
        )
        self._poller = threading.Thread(target=self._poll, name="producer", daemon=True)
        self._poller.start()

    async def close(self) -> None:
        """Stop at once: what is unanswered fails with WriterClosedError. Safe to repeat."""
        if self._poller is None or self._stopping.is_set():
            return
        for key in list(self._queues):
            self.release(*key)
        await asyncio.to_thread(self._producer.flush, CLOSE_SECONDS)
        self._stopping.set()
        await asyncio.to_thread(self._poller.join)
        del self._producer  # its connections and threads end with it
        for stream in self._streams.values():
            stream.cancel()
        await asyncio.gather(*self._streams.values(), return_exceptions=True)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def writer_id(self, session_id: str) -> str:
        """Return a writer id that this process has not used for the session yet."""
        ours = self._id if (session_id, self._id) not in self._used else f"w-{token_hex(8)}"
        self._used.add((session_id, ours))
        return ours

    async def send(self, request: AppendRequest, *, first_attempt: int = 0) -> SentAppend:
        """Send an append when there is room for it, and return it on its way.

        `append_seq` and `attempt` of the request are ignored: they are chosen here, per session
        and writer. A refused number is taken again by the next append, so look at what came
        before you send what builds on it. `first_attempt` counts from the writer's first send on:
        only a writer id that an earlier process used needs it. Raises AppendRefused (`too_large`),
        EncodeError, DeliveryError and WriterClosedError.
        """
        if self._poller is None or self._stopping.is_set():
            raise WriterClosedError("the append client is not running: start it, or make a new one")
        key = request.session_id, request.writer_id
        self._follow(request.writer_id)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = self._new_queue(request, first_attempt)
        return await queue.send(request)

    def release(self, session_id: str, writer_id: str) -> None:
        """Forget a writer of a session; what of it is unanswered fails with WriterClosedError."""
        queue = self._queues.pop((session_id, writer_id), None)
        if queue is not None:
            queue.fail(WriterClosedError(f"the writer {writer_id} of {session_id} was closed"))
        if not any(writer == writer_id for _, writer in self._queues):
            stream = self._streams.pop(writer_id, None)
            if stream is not None:
                stream.cancel()

    def _new_queue(self, request: AppendRequest, first_attempt: int) -> AppendQueue:
        self._used.add((request.session_id, request.writer_id))
        return AppendQueue(
            request,
            self.codec,
            partial(
                self._produce,
                self.settings.topics.for_role(request.role),
                request.session_id.encode(),
                partition_of(request.session_id, self._partitions),
            ),
            in_memory=self._in_memory,
            max_bytes=self.settings.max_append_bytes,
            patience=self._patience,
            first_attempt=first_attempt,
        )

    def _follow(self, writer_id: str) -> None:
        """Follow the writer's receipts. Begun before its first append: none can be missed."""
        if writer_id in self._streams:
            return
        key = Keys(self.settings.namespace).receipts(writer_id)
        stream = ReceiptStream(self.settings.redis, key, self._receive)
        task = asyncio.create_task(stream.follow(), name=f"receipts of {writer_id}")
        task.add_done_callback(partial(self._stream_ended, writer_id))
        self._streams[writer_id] = task

    def _receive(self, receipt: Receipt) -> None:
        queue = self._queues.get((receipt.session_id, receipt.writer_id))
        if queue is not None:
            queue.receive(receipt)

    def _stream_ended(self, writer_id: str, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = DeliveryError(f"the receipts of {writer_id} cannot be read: {task.exception()!r}")
        for (_, writer), queue in self._queues.items():
            if writer == writer_id:
                queue.fail(error)

    def _produce(
        self,
        topic: str,
        key: bytes,
        partition: int,
        payload: bytes,
        delivered: Callable[[SurfacelogError | None], None],
    ) -> None:
        def on_delivery(error: KafkaError | None, _: Message) -> None:
            told = None if error is None else DeliveryError(f"{topic}[{partition}]: {error}")
            self._loop.call_soon_threadsafe(delivered, told)

        self._producer.produce(
            topic, key=key, value=payload, partition=partition, on_delivery=on_delivery
        )

    def _poll(self) -> None:
        """Serve delivery reports, on a thread of its own."""
        while not self._stopping.is_set():
            self._producer.poll(0.1)
