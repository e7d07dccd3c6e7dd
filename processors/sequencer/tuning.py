"""Sizes and times of the sequencer that are no settings: tests make them smaller."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """The defaults are the product's; times are in ms unless the name says otherwise.

    A transaction holds at most `batch_appends` requests of together `batch_bytes` (one larger
    request stands alone), and `round_bytes` of snapshots. A snapshot round begins after
    `tail_appends` appends or `tail_bytes` of log since the last marker: this bounds how long a
    restore takes. Each partition keeps `hot_sessions` states decoded.

    `transaction_timeout` bounds how long a dead process holds its partitions back. One that comes
    back under the name of the dead one ends its transaction at once, so with a name the bound is
    `kept_transaction_timeout`: longer than a broker takes to restart. A single broker that was
    killed aborts what timed out before it knows its partitions again, and then writes no markers:
    the partitions of that transaction would be held back for ever.
    """

    batch_appends: int = 500
    batch_bytes: int = 16 * 1024 * 1024
    round_bytes: int = 256 * 1024
    tail_appends: int = 20_000
    tail_bytes: int = 64 * 1024 * 1024
    hot_sessions: int = 1_000
    session_timeout: int = 10_000
    max_poll_interval: int = 300_000
    transaction_timeout: int = 10_000
    kept_transaction_timeout: int = 60_000
    poll_seconds: float = 0.25
    hand_over_seconds: float = 5.0


DEFAULT: Tuning = Tuning()
