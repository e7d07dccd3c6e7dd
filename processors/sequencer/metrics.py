"""What a sequencer tells Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

ANSWERED: Final = Counter(
    "surfacelog_sequencer_appends",
    "Append requests by outcome: committed, duplicate, or the code of the refusal.",
    ["outcome"],
)
UNANSWERABLE: Final = Counter(
    "surfacelog_sequencer_unanswerable",
    "Records of the request topics that nobody can be told about: not decodable, no identity.",
)
POISONED: Final = Counter(
    "surfacelog_sequencer_poisoned",
    "Requests refused because admitting them failed in a way that no rule foresees.",
)
ABORTED: Final = Counter("surfacelog_sequencer_aborted", "Transactions that were aborted.")
TRANSACTION_SECONDS: Final = Histogram(
    "surfacelog_sequencer_transaction_seconds",
    "From the begin of a transaction to its commit.",
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
TRANSACTION_APPENDS: Final = Histogram(
    "surfacelog_sequencer_transaction_appends",
    "Requests of one transaction.",
    buckets=(0, 1, 5, 20, 50, 100, 200, 500, 1000),
)
RESTORE_SECONDS: Final = Histogram(
    "surfacelog_sequencer_restore_seconds",
    "From an assignment to work on its partitions.",
    buckets=(0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
MARKERS: Final = Counter("surfacelog_sequencer_markers", "Snapshot rounds that were completed.")
PARTITIONS: Final = Gauge("surfacelog_sequencer_partitions", "Partitions that this process owns.")
LAG: Final = Gauge(
    "surfacelog_sequencer_lag",
    "Requests that wait, by topic and partition.",
    ["topic", "partition"],
)
