"""A Kafka broker that belongs to one test."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from rich.console import Console

from surfacelog.processors.stack import launch, readiness, services
from surfacelog.processors.stack.checkout import DEFINITION, require_checkout
from surfacelog.processors.stack.downloads import fetch
from surfacelog.processors.stack.former_session import end_former_session
from surfacelog.processors.stack.guard import Guard
from surfacelog.processors.stack.plan import Plan
from surfacelog.processors.stack.progress import Progress
from surfacelog.processors.stack.services import Installation, Layout
from surfacelog.processors.stack.tools import find_java
from tests.processes import end_process
from tests.sequencing import wait_until

if TYPE_CHECKING:
    from pathlib import Path

START_SECONDS = 60.0
STOP_SECONDS = 30.0


class PrivateBroker:
    """One node on ports and in a directory of its own; both are kept when it comes back."""

    def __init__(self, directory: Path) -> None:
        self.layout = Layout(directory)
        self.layout.make()
        self.plan = Plan.new(1)
        self.url = self.plan.kafka_url
        self._process: subprocess.Popen[bytes] | None = None
        definition = require_checkout() / DEFINITION
        with Guard() as guard:
            programs = fetch(definition / "pom.xml", guard, Progress(Console(stderr=True)))
        template = (definition / "server.properties").read_text()
        self.installed = Installation(find_java(), programs, template)

    def start(self, *, as_stack: bool = False) -> None:
        """Start the broker, on request as the local stack does, and return when it answers."""
        launch.prepare_broker(self.plan, 1, self.layout, self.installed)
        if as_stack:
            with Guard() as guard:
                end_former_session(self.plan, self.layout, self.installed, guard)
        service = services.broker_service(self.plan, 1, self.layout, self.installed)
        with self.layout.log(service.name).open("ab") as output:
            self._process = subprocess.Popen(service.command, stdout=output, stderr=output)
        wait_until("the broker answers", lambda: readiness.kafka_answers(self.plan), START_SECONDS)

    def stop(self) -> None:
        """Stop the broker as an operator would; kill it when it does not end."""
        if self._process is not None:
            end_process(self._process, STOP_SECONDS)
            self._process = None

    def kill(self) -> None:
        """Kill the broker with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
            self._process = None
