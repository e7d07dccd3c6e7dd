"""Import and export against the whole pipeline: sequencer, projector, Redis."""

from __future__ import annotations

import asyncio
import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from redis import Redis
from tests.processes import environment_of
from tests.sequencing import Bus, Member, check_log, note

from surfacelog.processors.cli.main import execute
from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.errors import AppendRefused
from surfacelog.producers.exporter import export_session
from surfacelog.producers.importer import Importer
from surfacelog.producers.recorded_log import plan_appends, read_recording
from surfacelog.producers.session_writer import SessionWriter
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.json_text import dumps
from surfacelog.schemas.jsonl import read_log
from surfacelog.schemas.legacy import upgrade_events
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.private_redis import PrivateRedis
    from tests.processes import Spawner

    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("*.jsonl"))
NAMED = next(
    file for file in RECORDINGS if file.stem == "headless-agent-advanced-toolchain-session"
)
"""Its id is no placeholder."""
LONGEST = max(RECORDINGS, key=lambda file: file.stat().st_size)


@pytest.fixture
def settings(settings: Settings, own_redis: PrivateRedis) -> Settings:
    return settings.model_copy(update={"redis": own_redis.url})


@pytest.fixture
def bus(settings: Settings) -> Bus:
    return Bus(settings, connect_codec(settings))


@pytest.fixture
def pipeline(bus: Bus, spawn: Spawner) -> Iterator[None]:
    member = Member(bus)
    spawn("projector")
    member.wait_owns([0, 1, 2, 3])
    yield
    member.stop()


@pytest.fixture
async def client(bus: Bus, pipeline: None) -> AsyncIterator[AppendClient]:  # noqa: ARG001  # it answers
    async with AppendClient(bus.settings, bus.codec, patience=1) as client:
        yield client


@pytest.fixture
def log(bus: Bus) -> LogReader:
    return LogReader(bus.settings, bus.codec, SessionIndex(bus.settings))


def exported(log: LogReader, session_id: str, *, packed: bool) -> tuple[JsonObject, list[str]]:
    content = "".join(export_session(log, session_id, packed=packed)).encode()
    stored = read_log(content)
    assert stored.dropped_bytes == 0
    return stored.header, [dumps(event) for event in stored.events]


async def test_every_recording_comes_out_as_it_went_in(
    client: AppendClient, bus: Bus, log: LogReader
) -> None:
    importer = Importer(client)
    assert len(RECORDINGS) == 48
    index = {
        entry["file"]: entry for entry in json.loads(LONGEST.with_name("INDEX.json").read_text())
    }
    for number, file in enumerate(RECORDINGS):
        recording = read_recording(file.read_bytes(), f"r-{number}")
        imported = await importer.write(recording)
        assert imported.status == "imported"
        assert imported.events == index[file.name]["events"]
        stored = read_log(file.read_bytes(), default_depth=True)
        wanted = upgrade_events(stored.events, "s")
        for packed in (False, True):
            header, events = await asyncio.to_thread(exported, log, f"r-{number}", packed=packed)
            assert header == stored.header | {"id": f"r-{number}"}
            assert events == [dumps(event) for event in wanted]
    again = await importer.write(read_recording(RECORDINGS[0].read_bytes(), "r-0"))
    assert (again.status, again.warnings) == ("duplicate", ())
    assert len(check_log(bus)) == 48


async def test_a_session_whose_open_has_no_events_comes_out_with_its_header(
    client: AppendClient, log: LogReader
) -> None:
    """The open and the first append share first_seq 0; the index in Redis names both."""
    async with SessionWriter.open(client.settings, "own", cwd="/w", client=client) as writer:
        await writer.append(note("a"), note("b"))
        await writer.flush("visible")
    header, events = await asyncio.to_thread(exported, log, "own", packed=False)
    assert (header["id"], header["cwd"], len(events)) == ("own", "/w", 2)
    assert [offset for offset, _ in log.batches("own", 1)] == [
        offset for offset, batch in log.batches("own") if batch.items
    ]


async def test_a_killed_import_is_resumed_and_other_events_are_refused(
    client: AppendClient, bus: Bus, log: LogReader
) -> None:
    importer = Importer(client)
    recording = read_recording(LONGEST.read_bytes(), "s")
    appends = list(plan_appends(recording))
    assert len(appends) > 3
    for append in islice(appends, 2):
        assert (await (await client.send(append))).status == "committed"
    client.release("s", recording.writer_id)  # killed here

    with pytest.raises(AppendRefused, match="loading"):
        await importer.write(read_recording(RECORDINGS[0].read_bytes(), "s"))
    assert (await importer.write(recording)).status == "imported"
    assert (await importer.write(recording)).status == "duplicate"
    assert [dumps(event) for event in log.events("s")] == [dumps(e) for e in recording.events]

    with pytest.raises(AdmissionError, match="exists") as refused:
        await importer.write(read_recording(RECORDINGS[0].read_bytes(), "s"))
    assert refused.value.refusal == "exists"
    lines = LONGEST.read_bytes().splitlines(keepends=True)
    prefix = await importer.write(read_recording(b"".join(lines[:5]), "s"))
    assert prefix.status == "duplicate"
    assert prefix.warnings[-1:] == ("the session goes on behind the events of this file",)
    check_log(bus)


async def test_a_writer_lives_through_a_redis_that_is_emptied_and_restarted(
    client: AppendClient, bus: Bus, log: LogReader, own_redis: PrivateRedis
) -> None:
    """Receipts are lost between commit and stream; every append is told what the log holds."""
    async with SessionWriter.open(bus.settings, "s", client=client) as writer:
        handles = []
        for number in range(300):
            handles.append(await writer.append(note(f"{number}")))
            if number in (60, 140):
                await asyncio.to_thread(own_redis.flushall)
            if number == 220:
                await asyncio.to_thread(own_redis.kill)
                await asyncio.to_thread(own_redis.start)
        assert [await handle.committed() for handle in handles] == [
            range(seq, seq + 1) for seq in range(300)
        ]
        await writer.flush("visible")
    assert check_log(bus) == {"s": 300}
    with Redis.from_url(own_redis.url, socket_timeout=5) as redis:
        assert redis.hget(f"{bus.settings.namespace}:{{s}}:m", "watermark") == b"299"
    assert len(list(log.events("s"))) == 300


@pytest.mark.usefixtures("pipeline")
def test_the_commands_print_what_they_promise(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    for name, value in environment_of(settings).items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, list[JsonObject]]:
        capsys.readouterr()
        status = execute([*arguments, "--json"])
        return status, [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    opened = {"session": "s", "epoch": 1, "next_seq": 0}
    assert run("open", "s", "--cwd", "/tmp") == (0, [opened])
    assert run("open", "s") == (0, [opened | {"epoch": 2}])
    missing = tmp_path / "missing.jsonl"
    status, (failed, imported) = run("import", str(missing), str(NAMED))
    assert status == 1
    assert failed["error"]["code"] == "file"  # type: ignore[index,call-overload]  # an object
    assert list(imported) == [
        "file", "session", "events", "first_seq", "last_seq", "status", "warnings"
    ]  # fmt: skip
    session, events = str(imported["session"]), imported["events"]
    status, lines = run("log", session, "--from", "2", "--to", "3")
    assert (status, [line["seq"] for line in lines]) == (0, [2, 3])
    status, lines = run("export", session)
    assert (status, lines[0]["id"], len(lines) - 1) == (0, session, events)
    assert run("log", "nobody") == (1, [])
