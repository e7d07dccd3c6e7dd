"""The proof of membership that every transaction carries (DESIGN 4: fencing)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surfacelog.processors.sequencer.errors import FatalError, TransactionAbortError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_FORMAT: Final = b"CGMDv2:"


def membership(consumer: Consumer) -> bytes:
    """Return the group metadata for the transaction that begins now.

    Kafka compares the generation when offsets are sent. A negative one is that of a consumer
    which is in no group: Kafka does not fence it at all, so it must never be sent. librdkafka
    falls back to it in the background when the member was kicked, before any callback tells.
    Raises TransactionAbortError then.
    """
    metadata: bytes = consumer.consumer_group_metadata()
    if generation_of(metadata) < 0:
        raise TransactionAbortError("this sequencer is no member of its group at the moment")
    return metadata


def generation_of(metadata: bytes) -> int:
    """Return the generation that librdkafka's serialized group metadata holds.

    The client offers no other way to see it. Raises FatalError for another format: without this
    check a sequencer would be safe only by luck.
    """
    start, end = len(_FORMAT), len(_FORMAT) + 4
    if not metadata.startswith(_FORMAT) or len(metadata) < end:
        raise FatalError(
            f"group metadata of an unknown format ({metadata[:8]!r}): use a version of"
            " confluent-kafka that this sequencer was tested with"
        )
    return int.from_bytes(metadata[start:end], "little", signed=True)
