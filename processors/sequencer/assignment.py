"""Which partition numbers are ours: those that the group gave us of all three request topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.processors.sequencer.errors import AssignmentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import TopicPartition

    from surfacelog.schemas.topics import Topics


def owned_numbers(
    assigned: Iterable[TopicPartition], topics: Topics, pinned: int
) -> frozenset[int]:
    """Return the numbers that are owned alike of all request topics.

    A session's requests arrive on three topics but are put in one order, so their partition
    must have one owner. Raises AssignmentError when the numbers differ (partition counts are
    unequal, or a member of the group has another subscription), or when there is one beyond the
    `pinned` partition count: topics were grown, and sessions would change their partition.
    """
    numbers: dict[str, set[int]] = {name: set() for name in topics.requests}
    for partition in assigned:
        numbers[partition.topic].add(partition.partition)
    first, *others = numbers.values()
    if any(other != first for other in others):
        told = ", ".join(f"{name} {sorted(owned)}" for name, owned in numbers.items())
        raise AssignmentError(
            f"the group gave us different partitions of the request topics: {told}. Stop the"
            " member that is subscribed to other topics, or make the partition counts equal"
        )
    grown = [number for number in first if number >= pinned]
    if grown:
        raise AssignmentError(
            f"partitions {sorted(grown)} of the request topics exist, but the namespace was made"
            f" with {pinned}: make a new namespace and migrate"
        )
    return frozenset(first)
