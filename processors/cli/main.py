"""The command `surfacelog`: every group of commands, and the one place that maps errors."""

from __future__ import annotations

import os
import sys
from typing import Final

import typer
from typer.exceptions import TyperException

from surfacelog.processors.cli import (
    compact,
    fold,
    log,
    run,
    sessions,
    stack,
    surface,
    transfer,
)
from surfacelog.processors.cli.output import prepare_stdout, print_error, print_line
from surfacelog.schemas.errors import SurfacelogError

REFUSED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130

app = typer.Typer(
    name="surfacelog",
    help="The session bus for fleets of AI agents.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.add_typer(stack.app, name="stack")
app.add_typer(run.app, name="run")
app.command()(compact.compact)
app.command()(fold.fold)
app.command("open")(transfer.open_session)
app.command("import")(transfer.import_files)
app.command()(transfer.export)
app.command()(log.log)
app.command()(surface.surface)
app.command()(surface.header)
app.command()(sessions.sessions)


class UsageError(SurfacelogError):
    """The command line itself is wrong."""

    code = "usage"


def main() -> None:
    """Run the command line of this process and exit: 0 done, 1 refused or failed, 2 usage."""
    prepare_stdout()
    sys.exit(execute(sys.argv[1:]))


def execute(arguments: list[str]) -> int:
    """Run one command and return its exit status; errors are on stderr by then."""
    as_json = "--json" in arguments
    try:
        status = typer.main.get_command(app).main(
            arguments, prog_name="surfacelog", standalone_mode=False
        )
    except SurfacelogError as error:
        print_error(error, as_json=as_json)
        return REFUSED
    except TyperException as error:
        _print_usage_error(error, as_json=as_json)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has enough; the interpreter must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return REFUSED
    return status if isinstance(status, int) else 0


def _print_usage_error(error: TyperException, *, as_json: bool) -> None:
    print_error(UsageError(error.format_message()), as_json=as_json)
    if not as_json:
        print_line("Try --help.", sys.stderr)


if __name__ == "__main__":
    main()
