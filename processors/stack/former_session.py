"""A single Kafka node that comes back: ending its former session before it starts again.

Such a node is its own controller, and refuses itself as a double until the session of its former
self times out, 9 s later. Meanwhile it already loads its transactions, believing that it still
leads its partitions; then the session ends, the partitions have no leader for a moment, and the
markers of every transaction that ended since are skipped for good: what it held back stays held
back (`Couldn't find leader endpoint`). Started as a controller alone first, with a session that
times out at once, it has no former self when it loads them.

Nor does it end its session when it stops (`controlled.shutdown.enable`): with nobody to hand its
partitions to, that would take their leader away while transactions still end, with the same result.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from surfacelog.processors.stack.launch import CHECK_SECONDS, start_service
from surfacelog.processors.stack.run_file import RunFile, stop_all
from surfacelog.processors.stack.services import Service, broker_names, controller_service

if TYPE_CHECKING:
    from pathlib import Path

    from surfacelog.processors.stack.guard import Guard
    from surfacelog.processors.stack.plan import Plan
    from surfacelog.processors.stack.services import Installation, Layout

FENCED: Final = b"handleBrokerFenced"
"""What a controller logs when it has ended a broker's session."""

FENCE_SECONDS: Final = 20.0
STOP_SECONDS: Final = 10.0

_log = structlog.get_logger()


def end_former_session(plan: Plan, layout: Layout, installed: Installation, guard: Guard) -> None:
    """End the former session of a single node; does nothing at its first start.

    The node's configuration is there already. Should the session not end in time, the node still
    starts; it only takes longer, and may hold transactions back.
    """
    if not _comes_back(plan, layout):
        return
    service = controller_service(plan, layout, installed)
    start_service(service, layout, guard)
    try:
        if not _is_fenced(service, layout):
            _log.warning("the broker's former session did not end", log=layout.log(service.name))
    finally:
        stop_all([RunFile(layout.run_file(service.name))], STOP_SECONDS)


def _comes_back(plan: Plan, layout: Layout) -> bool:
    """Say whether this is a single node that ran before, and does not now."""
    names = broker_names(plan)
    data = layout.data(names[0])
    if len(names) > 1 or RunFile(layout.run_file(names[0])).pid() is not None:
        return False
    # A node that was killed leaves the one, a node that was stopped the other.
    return (data / ".lock").exists() or (data / ".kafka_cleanshutdown").exists()


def _is_fenced(service: Service, layout: Layout) -> bool:
    """Wait until the controller has ended the session; False when it ends itself, or in vain."""
    log: Path = layout.log(service.name)
    deadline = time.monotonic() + FENCE_SECONDS
    while FENCED not in log.read_bytes():
        ended = RunFile(layout.run_file(service.name)).pid() is None
        if ended or time.monotonic() > deadline:
            return False
        time.sleep(CHECK_SECONDS)
    return True
