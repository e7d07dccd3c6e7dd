"""`surfacelog run`: the long-running processes, in the foreground."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
import threading
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from surfacelog.processors.cli.find_settings import find_settings
from surfacelog.processors.cli.logs import configure_logs
from surfacelog.processors.health import serve_health
from surfacelog.processors.lifeline import follow_parent
from surfacelog.processors.supervisor import supervise
from surfacelog.projections.compaction_policy import configured_policies
from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from types import FrameType

    from surfacelog.schemas.settings import Settings

app = typer.Typer(help="Run a process until SIGTERM or Ctrl-C, which drain it.")

PROCESSES: Final = ("sequencer", "projector", "compactor")

HttpPort: TypeAlias = Annotated[
    int | None, typer.Option(help="Serve /healthz, /readyz and /metrics here.")
]
Lifeline: TypeAlias = Annotated[
    bool, typer.Option(help="Stop when standard input ends.", hidden=True)
]


class HttpPortError(SurfacelogError):
    """The health endpoints cannot be served on the port that was asked for."""

    code = "port_taken"


@app.command()
def sequencer(http_port: HttpPort = None, lifeline: Lifeline = False) -> None:
    """Admit append requests and write the log."""
    _prepare(http_port, lifeline=lifeline)
    # Each process loads what it runs, and no other process's client libraries.
    from surfacelog.processors.sequencer import run_sequencer

    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    raise typer.Exit(run_sequencer(find_settings(), stop))


@app.command()
def projector(http_port: HttpPort = None, lifeline: Lifeline = False) -> None:
    """Keep the Surface of every session in Redis."""
    settings = _settings_of_compactions()
    _prepare(http_port, lifeline=lifeline)
    from surfacelog.processors.projector import run_projector

    run_projector(settings)


@app.command()
def compactor(http_port: HttpPort = None, lifeline: Lifeline = False) -> None:
    """Compact sessions when asked to."""
    settings = _settings_of_compactions()
    _prepare(http_port, lifeline=lifeline)
    from surfacelog.processors.compactor import run_compactor

    run_compactor(settings)


@app.command(name="all")
def all_processes(
    http_port: Annotated[
        int | None, typer.Option(help="Health port of the sequencer; the others take the next.")
    ] = None,
) -> None:
    """Run sequencer, projector and compactor, and restart what exits."""
    # A wrong setting is said once here, not by three processes again and again.
    settings = _settings_of_compactions()
    configure_logs()
    if not settings.instance:
        # A restarted sequencer that keeps its name ends the transaction of the one that died.
        os.environ["SURFACELOG_INSTANCE"] = secrets.token_hex(8)
    commands = {
        name: [sys.executable, "-m", "surfacelog.processors.cli.main", "run", name, "--lifeline"]
        for name in PROCESSES
    }
    if http_port is not None:
        for port, command in enumerate(commands.values(), start=http_port):
            command += ["--http-port", str(port)]
    asyncio.run(supervise(commands))


def _settings_of_compactions() -> Settings:
    """Return the settings; PolicyError when their compaction policies contradict each other.

    Said before anything is started or waited for: a restart does not mend it.
    """
    settings = find_settings()
    configured_policies(settings)
    return settings


def _prepare(http_port: int | None, *, lifeline: bool) -> None:
    """Set up what all processes share; a SIGTERM before the process can drain just ends it."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    configure_logs()
    if lifeline:
        follow_parent()
    if http_port is not None:
        try:
            serve_health(http_port)
        except OSError as error:
            raise HttpPortError(f"--http-port {http_port}: {error}") from error
