"""The local stack as a whole: up, down, status."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from surfacelog.processors.stack import launch, readiness, services
from surfacelog.processors.stack.downloads import fetch
from surfacelog.processors.stack.errors import StackError
from surfacelog.processors.stack.exclusive import exclusive
from surfacelog.processors.stack.former_session import end_former_session
from surfacelog.processors.stack.guard import Guard
from surfacelog.processors.stack.plan import Plan, load_plan
from surfacelog.processors.stack.run_file import RunFile, stop_all
from surfacelog.processors.stack.services import Installation, Layout
from surfacelog.processors.stack.tools import check_room, find_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from surfacelog.processors.stack.progress import Progress

STOP_SECONDS: Final = 20.0
NEEDED_MB: Final = 300


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """One service: where it is, its process (None when it does not run), whether it answers."""

    url: str | None
    pid: int | None
    ready: bool


class LocalStack:
    """The stack of one directory.

    `definition` is the directory with pom.xml and server.properties (deploy/local of a checkout).
    """

    def __init__(self, directory: Path, definition: Path) -> None:
        self._layout = Layout(directory.resolve())
        self._definition = definition

    @property
    def plan(self) -> Plan | None:
        """The plan of this stack; None when it was never started or has been wiped."""
        return load_plan(self._layout.plan)

    def status(self) -> dict[str, ServiceStatus]:
        """Return the state of `kafka`, `registry` and `redis`."""
        plan = self.plan
        if plan is None:
            return dict.fromkeys(("kafka", "registry", "redis"), ServiceStatus(None, None, False))
        return {
            "kafka": self._status(
                services.broker_names(plan), plan.kafka_url, plan, readiness.kafka_answers
            ),
            "registry": self._status(
                ["registry"], plan.registry_url, plan, readiness.registry_answers
            ),
            "redis": self._status(["redis"], plan.redis_url, plan, readiness.redis_answers),
        }

    def up(self, brokers: int | None, progress: Progress) -> bool:
        """Start what does not run, and return when all is ready; False when all was up already.

        `brokers` is the number of Kafka nodes of a new stack, None for one, or for what the
        stack has. Raises StackError; whatever was started is stopped again then.
        """
        with exclusive(self._layout.lock):
            if self._is_up(brokers):
                return False
            with Guard() as guard:
                self._start(brokers, guard, progress)
                guard.release()
            return True

    @contextmanager
    def running(self, progress: Progress) -> Iterator[Plan]:
        """Hold the stack up for as long as the context and this process last."""
        with exclusive(self._layout.lock), Guard() as guard:
            yield self._start(None, guard, progress)

    def down(self, *, wipe: bool) -> list[str]:
        """Stop everything; return the names of services that had to be killed.

        `wipe` removes data, logs and ports too.
        """
        with exclusive(self._layout.lock):
            plan = self.plan
            names = [] if plan is None else services.service_names(plan)
            run_files = {name: RunFile(self._layout.run_file(name)) for name in names}
            killed = stop_all(list(run_files.values()), STOP_SECONDS)
            if wipe:
                self._wipe()
            return [name for name, run_file in run_files.items() if run_file in killed]

    def _is_up(self, brokers: int | None) -> bool:
        plan = self.plan
        if plan is not None and brokers not in (None, plan.brokers):
            raise StackError(
                f"The stack in {self._layout.directory} has {plan.brokers} broker(s). For another "
                "number, wipe it first: `surfacelog stack down --wipe` (its data is lost)."
            )
        return all(service.pid and service.ready for service in self.status().values())

    def _start(self, brokers: int | None, guard: Guard, progress: Progress) -> Plan:
        layout = self._layout
        java = find_java()
        layout.make()
        check_room(layout.directory, NEEDED_MB)
        programs = fetch(self._definition / "pom.xml", guard, progress)
        template = (self._definition / "server.properties").read_text()
        installed = Installation(java, programs, template)
        plan = self.plan or Plan.new(brokers or 1)
        plan.save(layout.plan)
        with progress.step("Starting Redis"):
            launch.start_service(services.redis_service(plan, layout), layout, guard)
            launch.wait_ready(["redis"], lambda: readiness.redis_answers(plan), layout)
        with progress.step(f"Starting Kafka ({plan.brokers} broker(s))"):
            self._start_kafka(plan, installed, guard)
        with progress.step("Starting the schema registry"):
            launch.start_service(services.registry_service(plan, installed), layout, guard)
            launch.wait_ready(["registry"], lambda: readiness.registry_answers(plan), layout)
        return plan

    def _start_kafka(self, plan: Plan, installed: Installation, guard: Guard) -> None:
        for node in range(1, plan.brokers + 1):
            launch.prepare_broker(plan, node, self._layout, installed)
        end_former_session(plan, self._layout, installed, guard)
        for node in range(1, plan.brokers + 1):
            service = services.broker_service(plan, node, self._layout, installed)
            launch.start_service(service, self._layout, guard)
        names = services.broker_names(plan)
        launch.wait_ready(names, lambda: readiness.kafka_answers(plan), self._layout)

    def _status(
        self, names: list[str], url: str, plan: Plan, answers: Callable[[Plan], bool]
    ) -> ServiceStatus:
        pids = [RunFile(self._layout.run_file(name)).pid() for name in names]
        running = all(pid is not None for pid in pids)
        return ServiceStatus(url, pids[0], running and answers(plan))

    def _wipe(self) -> None:
        for part in self._layout.parts:
            if part.is_dir():
                shutil.rmtree(part)
            else:
                part.unlink(missing_ok=True)
        self._layout.lock.unlink()
        if not any(self._layout.directory.iterdir()):
            self._layout.directory.rmdir()
