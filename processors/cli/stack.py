"""`surfacelog stack`: the local services of a checkout."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from surfacelog.processors.cli.output import (
    STDERR,
    JsonOption,
    print_json,
    print_line,
    print_table,
)
from surfacelog.processors.stack.checkout import (
    DEFAULT_DIRECTORY,
    DEFINITION,
    require_checkout,
)
from surfacelog.processors.stack.errors import StackError
from surfacelog.processors.stack.local_stack import LocalStack
from surfacelog.processors.stack.progress import Progress

app = typer.Typer(help="Kafka, schema registry and Redis on this machine.")

DirectoryOption: TypeAlias = Annotated[
    Path | None, typer.Option("--dir", help="Directory of the stack.  [default: .surfacelog/]")
]


@app.command()
def up(
    brokers: Annotated[int | None, typer.Option(help="Kafka nodes, 1 or 3.")] = None,
    directory: DirectoryOption = None,
) -> None:
    """Start what does not run yet, and return when everything is ready."""
    if brokers not in (None, 1, 3):
        raise typer.BadParameter("a stack has 1 or 3 brokers", param_hint="--brokers")
    progress = Progress(STDERR)
    if not _stack(directory).up(brokers, progress):
        progress.say("Already up.")


@app.command()
def down(
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove data, logs and ports too.")] = False,
    directory: DirectoryOption = None,
) -> None:
    """Stop the services; their data stays."""
    for name in _stack(directory).down(wipe=wipe):
        STDERR.print(f"{name} did not stop when asked and was killed.", highlight=False)


@app.command()
def status(directory: DirectoryOption = None, as_json: JsonOption = False) -> None:
    """Show where the services are and whether they answer."""
    services = _stack(directory).status()
    if as_json:
        print_json({name: asdict(service) for name, service in services.items()})
        return
    print_table(
        ("service", "url", "pid", "ready"),
        (
            (name, service.url or "-", service.pid or "-", "yes" if service.ready else "no")
            for name, service in services.items()
        ),
    )


@app.command()
def env(directory: DirectoryOption = None, as_json: JsonOption = False) -> None:
    """Print lines for a shell: `eval "$(surfacelog stack env)"`."""
    plan = _stack(directory).plan
    if plan is None:
        raise StackError("There is no stack here yet. Start it: `surfacelog stack up`.")
    variables = {f"SURFACELOG_{name.upper()}": str(value) for name, value in plan.settings.items()}
    if as_json:
        print_json({**variables})
        return
    for name, value in variables.items():
        print_line(f"export {name}={value}")


def _stack(directory: Path | None) -> LocalStack:
    checkout = require_checkout()
    return LocalStack(directory or checkout / DEFAULT_DIRECTORY, checkout / DEFINITION)
