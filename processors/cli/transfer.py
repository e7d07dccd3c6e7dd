"""`surfacelog open`, `import` and `export`: sessions into the log and out of it (DESIGN 12)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path  # noqa: TC003  # Typer reads the annotation when it runs
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import Progress

from surfacelog.processors.cli.find_settings import find_settings
from surfacelog.processors.cli.output import (
    STDERR,
    JsonOption,
    print_error,
    print_json,
    print_line,
    print_lines,
)
from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.bootstrap import create_namespace
from surfacelog.producers.exporter import export_session
from surfacelog.producers.importer import Importer
from surfacelog.producers.recorded_log import read_recording
from surfacelog.producers.session_writer import SessionWriter
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.schemas.errors import AdmissionError, SurfacelogError
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from rich.progress import TaskID

    from surfacelog.producers.importer import Imported
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings

FAILED = 1

KAFKA_SECONDS = 5.0
"""Somebody waits at the command line: a Kafka that is there answers at once."""

SessionArgument = Annotated[str, typer.Argument(help="The session's id.")]


class UnreadableFileError(SurfacelogError):
    """A file that was named cannot be read."""

    code = "file"


def open_session(
    session: SessionArgument,
    cwd: Annotated[
        str | None, typer.Option(help="Working directory of a new session (absolute).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a session, or take its ownership: earlier owners are fenced."""
    settings = find_settings()
    create_namespace(settings, KAFKA_SECONDS)
    opened = asyncio.run(_open(settings, session, cwd))
    if as_json:
        print_json(opened)
    else:
        print_line(f"{session}: epoch {opened['epoch']}, next seq {opened['next_seq']}")


def import_files(
    files: Annotated[list[Path], typer.Argument(help="JSONL session logs.")],
    session: Annotated[
        str | None, typer.Option(help="Import under this id instead of the file's own.")
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Import recorded sessions; each file is checked as a whole before anything is written."""
    if session is not None and len(files) > 1:
        raise typer.BadParameter("--session names one session: give one file with it")
    settings = find_settings()
    create_namespace(settings, KAFKA_SECONDS)
    return asyncio.run(_import(settings, files, session, as_json=as_json))


def export(
    session: SessionArgument,
    packed: Annotated[bool, typer.Option("--packed", help="Write chunk runs as rows.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Print a session as JSONL: the header, then an event a line (--json is the same)."""
    del as_json  # JSONL either way
    settings = find_settings()
    reader = LogReader(settings, connect_codec(settings), SessionIndex(settings))
    print_lines(export_session(reader, session, packed=packed))


async def _open(settings: Settings, session: str, cwd: str | None) -> JsonObject:
    async with (
        await AppendClient.connect(settings) as client,
        SessionWriter.open(settings, session, cwd=cwd, client=client) as writer,
    ):
        last = writer.opened.last_seq
        if last is None:
            # Nothing had to be closed: the log ends where it did, and the receipt does not say.
            reader = LogReader(settings, client.codec, SessionIndex(settings))
            last = await asyncio.to_thread(reader.end_seq, session)
        return {"session": session, "epoch": writer.epoch, "next_seq": last + 1}


async def _import(
    settings: Settings, files: list[Path], session: str | None, *, as_json: bool
) -> int:
    """Import one file after the other; a bad one does not stop the others."""
    failed = False
    async with await AppendClient.connect(settings) as client:
        importer = Importer(client)
        with Progress(console=STDERR, transient=True, disable=not STDERR.is_terminal) as progress:
            for file in files:
                task = progress.add_task(file.name, total=None)
                try:
                    imported = await _import_file(importer, file, session, progress, task)
                    _print_imported(file, imported, as_json=as_json)
                except SurfacelogError as error:
                    failed = True
                    _print_failed(file, error, as_json=as_json)
                progress.remove_task(task)
    return FAILED if failed else 0


async def _import_file(
    importer: Importer, file: Path, session: str | None, progress: Progress, task: TaskID
) -> Imported:
    try:
        content = await asyncio.to_thread(file.read_bytes)
    except OSError as error:
        raise UnreadableFileError(f"{file}: {error.strerror}") from error
    log = await asyncio.to_thread(read_recording, content, session)
    progress.update(task, total=len(log.events))
    return await importer.write(log, lambda events: progress.advance(task, events))


def _print_imported(file: Path, imported: Imported, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "file": str(file),
                "session": imported.session_id,
                "events": imported.events,
                "first_seq": imported.first_seq,
                "last_seq": imported.last_seq,
                "status": imported.status,
                "warnings": list(imported.warnings),
            }
        )
        return
    print_line(f"{file}: {imported.status}, {imported.events} events as {imported.session_id}")
    for warning in imported.warnings:
        print_line(f"{file}: warning: {warning}", sys.stderr)


def _print_failed(file: Path, error: SurfacelogError, *, as_json: bool) -> None:
    if as_json:
        code = error.refusal if isinstance(error, AdmissionError) else error.code
        print_json({"file": str(file), "error": {"code": code, "message": error.message}})
        return
    print_line(f"{file}:", sys.stderr)
    print_error(error, as_json=False)
