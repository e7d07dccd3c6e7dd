"""What the projector counts, for Prometheus."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

APPENDS: Final = Counter("surfacelog_projector_appends", "Appends taken from the log.")
EVENTS: Final = Counter("surfacelog_projector_events", "Events applied to Redis.")
RECEIPTS: Final = Counter("surfacelog_projector_receipts", "Receipts passed on to writers.")
UNREADABLE: Final = Counter(
    "surfacelog_projector_unreadable", "Records that could not be decoded.", ["topic"]
)
PARKED: Final = Gauge("surfacelog_projector_parked", "Sessions that stand still.")
REPLAYS: Final = Counter("surfacelog_projector_replays", "Times that Redis had lost something.")
COMPACTIONS_ASKED: Final = Counter(
    "surfacelog_projector_compactions_asked", "Compactions asked for because a session was full."
)
APPLY_SECONDS: Final = Histogram(
    "surfacelog_projector_apply_seconds", "Time to apply one batch of appends."
)
