"""The command `surfacelog`: every group of commands, and the one place that maps errors."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

import typer
from typer.exceptions import TyperException

from surfacelog.processors.cli.logs import configure_logs
from surfacelog.processors.cli.output import drop_stdout, prepare_stdout, print_error, print_line
from surfacelog.schemas.errors import ServiceError, SurfacelogError

if TYPE_CHECKING:
    from collections.abc import Iterable

REFUSED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

COMMANDS: Final = {
    "stack": "stack:app",
    "run": "run:app",
    "open": "transfer:open_session",
    "import": "transfer:import_files",
    "export": "transfer:export",
    "log": "log:log",
    "surface": "surface:surface",
    "header": "surface:header",
    "sessions": "sessions:sessions",
    "compact": "compact:compact",
    "compactions": "compactions:compactions",
    "recall": "recall:recall_shadowed",
    "trace": "trace:trace",
    "fold": "fold:fold",
}
"""Where each command is: module of this package and name in it."""


class UsageError(SurfacelogError):
    """The command line itself is wrong."""

    code = "usage"


def main() -> None:
    """Run the command line of this process and exit: 0 done, 1 refused or failed, 2 usage."""
    prepare_stdout()
    configure_logs()
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: list[str]) -> int:
    """Run one command and return its exit status; errors are on stderr by then."""
    as_json = "--json" in arguments
    named = arguments[:1] if arguments[:1] and arguments[0] in COMMANDS else COMMANDS
    try:
        status = typer.main.get_command(_app(named)).main(
            arguments or ["--help"], prog_name="surfacelog", standalone_mode=False
        )
    except SurfacelogError as error:
        print_error(error, as_json=as_json)
        if isinstance(error, ServiceError) and not as_json:
            print_line("See `surfacelog stack status`, `surfacelog stack up`.", sys.stderr)
        return REFUSED
    except TyperException as error:
        _print_usage_error(error, as_json=as_json)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        drop_stdout()  # whoever read our output has enough
        return REFUSED
    return status if isinstance(status, int) else 0


def _app(names: Iterable[str]) -> typer.Typer:
    """Build the command line of these commands alone: the others' client libraries cost seconds."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.callback()(_surfacelog)
    for name in names:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(f"surfacelog.processors.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _surfacelog() -> None:
    """The session bus for fleets of AI agents."""


def _print_usage_error(error: TyperException, *, as_json: bool) -> None:
    print_error(UsageError(error.format_message()), as_json=as_json)
    if not as_json:
        print_line("Try --help.", sys.stderr)


if __name__ == "__main__":
    main()
