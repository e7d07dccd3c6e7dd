"""What can go wrong at the sequencer's Kafka edge, in the classes that decide what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


class FatalError(SurfacelogError):
    """This process can write no more: it exits, and its supervisor starts a new one.

    The usual reason is that the broker ended a transaction which took longer than its timeout,
    because the process was stopped, or that another process took the transactional.id over.
    """

    code = "sequencer_fatal"


class TransactionAbortError(SurfacelogError):
    """The open transaction cannot be committed: abort it, drop its changes, read again.

    Also what a sequencer is told that is no longer a member of its group.
    """

    code = "transaction_abort"


class AssignmentError(SurfacelogError):
    """The partitions that the group gave us cannot be worked on (DESIGN 4: assignment)."""

    code = "assignment"


class InterruptedRestoreError(SurfacelogError):
    """The partitions changed, or the process was told to stop, before they were restored."""

    code = "restore_interrupted"


class PoisonedRecordError(SurfacelogError):
    """Admitting one record raised what no rule foresees: a defect of the sequencer.

    The transaction is aborted, because the record may have left half a change behind, and the
    record is refused when it is read again (`malformed`): its partition must go on.
    """

    code = "poisoned_record"

    def __init__(self, topic: str, partition: int, offset: int, cause: Exception) -> None:
        super().__init__(
            f"{topic}[{partition}]@{offset} cannot be admitted: {type(cause).__name__}: {cause}"
        )
        self.place = (topic, partition, offset)


def error_of_call(reason: KafkaError) -> FatalError | TransactionAbortError | None:
    """Return what a failed transactional call means; None when it must be repeated as it is.

    A commit whose outcome is unknown is retriable, so it is only ever repeated, never aborted.
    """
    if reason.fatal():
        return FatalError(f"Kafka ended this producer: {reason}")
    if reason.retriable():
        return None
    if reason.txn_requires_abort():
        return TransactionAbortError(f"Kafka refused the transaction: {reason}")
    return FatalError(f"a transactional call failed for no known reason: {reason}")
