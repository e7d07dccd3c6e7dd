"""Starting one service and waiting until it answers."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Final

from surfacelog.processors.stack.errors import PortTakenError, StartError
from surfacelog.processors.stack.plan import is_free
from surfacelog.processors.stack.run_file import RunFile
from surfacelog.processors.stack.services import broker_names, broker_properties, format_command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from surfacelog.processors.stack.guard import Guard
    from surfacelog.processors.stack.plan import Plan
    from surfacelog.processors.stack.services import Installation, Layout, Service

READY_SECONDS: Final = 180.0
CHECK_SECONDS: Final = 0.1


def start_service(service: Service, layout: Layout, guard: Guard) -> None:
    """Start a service unless it runs; its output goes to its log, the last log is kept beside."""
    run_file = RunFile(layout.run_file(service.name))
    if run_file.pid() is not None:
        return
    for port in service.ports:
        if not is_free(port):
            raise PortTakenError(
                f"Port {port} of {service.name} is used by another program. Stop it, or let the "
                "stack choose new ports: `surfacelog stack down --wipe` (its data is lost).",
                port=port,
            )
    log = layout.log(service.name)
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    layout.data(service.name).mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        guard.start(service.command, run_file, output, service.environment)


def wait_ready(names: list[str], answers: Callable[[], bool], layout: Layout) -> None:
    """Return when `answers` says so; raise StartError when one of the services ends first."""
    deadline = time.monotonic() + READY_SECONDS
    while not answers():
        for name in names:
            if RunFile(layout.run_file(name)).pid() is None:
                raise StartError(f"{name} ended while it was starting.{_tail(layout.log(name))}")
        if time.monotonic() > deadline:
            logs = ", ".join(str(layout.log(name)) for name in names)
            raise StartError(f"{names[0]} was not ready after {READY_SECONDS:.0f} s. See {logs}")
        time.sleep(CHECK_SECONDS)


def prepare_broker(plan: Plan, node: int, layout: Layout, installed: Installation) -> None:
    """Write a Kafka node's configuration, and format its data directory the first time."""
    name = broker_names(plan)[node - 1]
    data, configuration = layout.data(name), layout.configuration(name)
    configuration.write_text(broker_properties(plan, node, data, installed.broker_template))
    if (data / "meta.properties").exists():
        return
    command = format_command(plan, configuration, installed)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StartError(f"{data} could not be formatted: {(done.stderr or done.stdout)[-1000:]}")


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return f" Its log, {log}, ends with:\n" + "\n".join(lines[-8:])
