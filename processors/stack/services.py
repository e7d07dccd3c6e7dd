"""The services of a stack: what each is started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from string import Template
from typing import TYPE_CHECKING, Final

from surfacelog.processors.stack.plan import HOST
from surfacelog.processors.stack.redis_server import redis_command

if TYPE_CHECKING:
    from pathlib import Path

    from surfacelog.processors.stack.downloads import Programs
    from surfacelog.processors.stack.plan import Plan

LOG_OPTIONS: Final = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
    # Otherwise every client and topic prints its hundreds of settings.
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",
)
QUICK_START: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a Java process whose start-up matters more than its top speed."""


@dataclass(frozen=True, slots=True)
class Service:
    """One process of the stack and the ports it listens on."""

    name: str
    ports: tuple[int, ...]
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Installation:
    """What services are made of: Java, the downloaded programs, a template of the brokers'."""

    java: str
    programs: Programs
    broker_template: str

    def kafka_tool(self, *options: str) -> tuple[str, ...]:
        """Return a Java command with Kafka's classes at hand; options go before them."""
        return (self.java, *options, "-cp", self.programs.kafka_class_path)


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a stack keeps its files, under its directory."""

    directory: Path

    @property
    def plan(self) -> Path:
        """What never changes between runs."""
        return self.directory / "stack.json"

    @property
    def lock(self) -> Path:
        """Held by whoever starts or stops the stack."""
        return self.directory / "lock"

    @property
    def parts(self) -> tuple[Path, ...]:
        """Everything that a wipe removes, the lock aside."""
        return tuple(self.directory / name for name in ("run", "logs", "data", "stack.json"))

    def run_file(self, service: str) -> Path:
        """The run file of a service."""
        return self.directory / "run" / f"{service}.pid"

    def log(self, service: str) -> Path:
        """The log of a service."""
        return self.directory / "logs" / f"{service}.log"

    def data(self, service: str) -> Path:
        """The data of a service."""
        return self.directory / "data" / service

    def configuration(self, service: str) -> Path:
        """The configuration of a service, written at each start."""
        return self.directory / "run" / f"{service}.properties"

    def make(self) -> None:
        """Make the directories."""
        for name in ("run", "logs", "data"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)


def broker_names(plan: Plan) -> list[str]:
    """Return the names of the Kafka nodes."""
    return [f"kafka-{number + 1}" for number in range(plan.brokers)]


def service_names(plan: Plan) -> list[str]:
    """Return the names of all services."""
    return [*broker_names(plan), "registry", "redis"]


def broker_service(plan: Plan, node: int, layout: Layout, installed: Installation) -> Service:
    """Return Kafka node `node` (1, 2, ...)."""
    name = broker_names(plan)[node - 1]
    java = installed.kafka_tool("-Xms256m", "-Xmx1g", *LOG_OPTIONS)
    return Service(
        name,
        (plan.broker_ports[node - 1], plan.controller_ports[node - 1]),
        (*java, "kafka.Kafka", str(layout.configuration(name))),
    )


def controller_service(plan: Plan, layout: Layout, installed: Installation) -> Service:
    """Return the first Kafka node as a controller alone, for which brokers are gone at once.

    Its configuration is made from that of the node, on whose data it works.
    """
    name = f"{broker_names(plan)[0]}-controller"
    configuration = layout.configuration(broker_names(plan)[0]).read_text()
    changed = {
        "process.roles": "controller",
        "listeners": f"CONTROLLER://{HOST}:{plan.controller_ports[0]}",
        "broker.session.timeout.ms": "500",
        "broker.heartbeat.interval.ms": "200",
    }
    dropped = (*changed, "advertised.listeners", "inter.broker.listener.name")
    kept = (line for line in configuration.splitlines() if line.split("=")[0] not in dropped)
    lines = (*kept, *(f"{option}={value}" for option, value in changed.items()), "")
    layout.configuration(name).write_text("\n".join(lines))
    java = installed.kafka_tool("-Xmx256m", *QUICK_START, *LOG_OPTIONS)
    command = (*java, "kafka.Kafka", str(layout.configuration(name)))
    return Service(name, plan.controller_ports[:1], command)


def registry_service(plan: Plan, installed: Installation) -> Service:
    """Return the schema registry, which keeps its state in Kafka."""
    listen = (f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={plan.registry_port}")
    start = ("-jar", installed.programs.registry_jar)
    return Service(
        "registry",
        (plan.registry_port,),
        (installed.java, "-Xmx384m", *QUICK_START, *listen, *start),
        {
            "APICURIO_STORAGE_KIND": "kafkasql",
            "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": plan.kafka_url,
        },
    )


def redis_service(plan: Plan, layout: Layout) -> Service:
    """Return Valkey or Redis."""
    command = redis_command(layout.data("redis"), plan.redis_port)
    return Service("redis", (plan.redis_port,), tuple(command))


def broker_properties(plan: Plan, node: int, data: Path, template: str) -> str:
    """Fill in the configuration of Kafka node `node` (1, 2, ...)."""
    voters = (f"{n}@{HOST}:{port}" for n, port in enumerate(plan.controller_ports, start=1))
    return Template(template).substitute(
        node_id=node,
        voters=",".join(voters),
        host=HOST,
        broker_port=plan.broker_ports[node - 1],
        controller_port=plan.controller_ports[node - 1],
        data=data,
        replication=plan.brokers,
        in_sync=max(1, plan.brokers - 1),
        hand_over="true" if plan.brokers > 1 else "false",
    )


def format_command(plan: Plan, configuration: Path, installed: Installation) -> list[str]:
    """Return the command that prepares a Kafka node's empty data directory."""
    tool = (*installed.kafka_tool(*QUICK_START), "kafka.tools.StorageTool", "format")
    return [*tool, "-t", plan.cluster_id, "-c", str(configuration)]
