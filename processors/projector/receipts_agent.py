"""Passes the sequencer's receipts on to the writers that wait for them (DESIGN 5, 6).

A receipt may come twice after a restart; one that is lost with Redis is asked for again by its
writer. So receipts have no guard and no position of their own but Kafka's committed offset.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from surfacelog.processors.projector import metrics
from surfacelog.schemas.codec import DecodeError
from surfacelog.schemas.json_text import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.processors.projector.partitions import Partitions
    from surfacelog.processors.projector.patience import PatientRedis
    from surfacelog.processors.projector.transport import LinkedMessage, LogConsumer
    from surfacelog.projections.keys import Keys
    from surfacelog.projections.redis_calls import Command
    from surfacelog.schemas.codec import Codec

STREAM_CAP: Final = 2_000
STREAM_SECONDS: Final = 24 * 60 * 60


class ReceiptsAgent:
    """Writes receipts to one stream per writer."""

    def __init__(
        self, codec: Codec, partitions: Partitions, redis: PatientRedis, keys: Keys
    ) -> None:
        self._codec = codec
        self._partitions = partitions
        self._redis = redis
        self._keys = keys

    async def take(self, consumer: LogConsumer, messages: Sequence[LinkedMessage]) -> None:
        """Pass messages on in one round trip."""
        async with self._partitions.turn:
            selected, holes = self._partitions.select(messages)
            streams: set[str] = set()
            commands: list[Command] = []
            for message in selected:
                try:
                    receipt = self._codec.decode_receipt(message.value or b"")
                except DecodeError:
                    metrics.UNREADABLE.labels("receipts").inc()
                    continue
                stream = self._keys.receipts(receipt.writer_id)
                streams.add(stream)
                text = dumps(asdict(receipt))
                commands.append(("XADD", stream, "MAXLEN", "~", STREAM_CAP, "*", "receipt", text))
            commands += [("EXPIRE", stream, STREAM_SECONDS) for stream in sorted(streams)]
            await self._redis.run(commands)
            self._partitions.done(selected)
            await self._partitions.fill_holes(consumer, holes)
        metrics.RECEIPTS.inc(len(selected))
