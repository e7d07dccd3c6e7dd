"""How commands print: data on stdout, everything else on stderr (DESIGN 12)."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Annotated, Final, TypeAlias

import typer
from rich.console import Console
from rich.table import Table

from surfacelog.schemas.errors import AdmissionError, SurfacelogError
from surfacelog.schemas.json_text import dumps

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
STDERR: Final = Console(stderr=True)


class OutputError(SurfacelogError):
    """What the command prints cannot be written."""

    code = "output"


def prepare_stdout() -> None:
    """Print UTF-8 whatever the locale; a lone surrogate, which has no bytes, as JSON escapes it."""
    if hasattr(sys.stdout, "reconfigure"):  # not when a test has replaced it
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")


def print_json(value: JsonValue) -> None:
    """Print one JSON value on a line of its own."""
    print_line(dumps(value))


def print_line(text: str, file: IO[str] | None = None) -> None:
    """Print one line, to stdout by default; OutputError when it cannot be written."""
    stream = file or sys.stdout
    with _writing():
        stream.write(f"{text}\n")
        stream.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Print texts that bring their line ends, however many; OutputError as `print_line`."""
    for line in lines:
        with _writing():
            sys.stdout.write(line)
    with _writing():
        sys.stdout.flush()


@contextmanager
def _writing() -> Iterator[None]:
    """Tell a stream that cannot be written; one whose reader has gone is the caller's to see."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_stdout()
        raise OutputError(f"the output cannot be written: {error.strerror}") from error


def drop_stdout() -> None:
    """Send what stdout still holds nowhere: the interpreter must not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows: as a table at a terminal, else as lines of tab-separated cells for pipes."""
    if not sys.stdout.isatty():
        for row in rows:
            print_line("\t".join(str(cell) for cell in row))
        return
    table = Table(*columns)
    for row in rows:
        table.add_row(*(str(cell) for cell in row))
    Console().print(table, markup=False)


def print_error(error: SurfacelogError, *, as_json: bool) -> None:
    """Print an error to stderr: `{"error": {"code", "message", ...}}` or a sentence."""
    code = error.refusal if isinstance(error, AdmissionError) else error.code
    if as_json:
        details = {name: _plain(value) for name, value in error.details.items()}
        described: JsonObject = {"code": code, "message": error.message, **details}
        print_line(dumps({"error": described}), sys.stderr)
    else:
        print_line(f"error ({code}): {error.message}", sys.stderr)


def _plain(value: object) -> JsonValue:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else str(value)
