from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from redis import Redis

from surfacelog.processors.cli.main import execute
from surfacelog.processors.stack.checkout import DEFINITION, require_checkout
from surfacelog.processors.stack.local_stack import LocalStack
from surfacelog.processors.stack.plan import Plan, load_plan
from surfacelog.processors.stack.run_file import RunFile
from surfacelog.processors.stack.services import Layout, service_names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_SECONDS = 150


class Cli:
    """Runs `surfacelog stack ... --dir DIR` in this process and keeps what it printed."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._directory = directory
        self._capsys = capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        """Return exit status, standard output and standard error."""
        self._capsys.readouterr()
        status = execute(["stack", *words, "--dir", str(self._directory)])
        printed = self._capsys.readouterr()
        return status, printed.out, printed.err

    def json(self) -> dict[str, dict[str, object]]:
        """Return the status of the stack."""
        status: dict[str, dict[str, object]] = json.loads(self("status", "--json")[1])
        return status


def start_up(directory: Path) -> subprocess.Popen[str]:
    """Start `surfacelog stack up` as a process of its own."""
    module = "surfacelog.processors.cli.main"
    return subprocess.Popen(
        [sys.executable, "-m", module, "stack", "up", "--dir", str(directory)],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def running(directory: Path) -> list[str]:
    """Return the services of a stack that run."""
    plan = load_plan(Layout(directory).plan)
    if plan is None:
        return []
    layout = Layout(directory)
    return [name for name in service_names(plan) if RunFile(layout.run_file(name)).pid()]


def wait_until_running(directory: Path, service: str) -> None:
    deadline = time.monotonic() + 60
    while service not in running(directory):
        assert time.monotonic() < deadline, f"{service} was not started"
        time.sleep(0.02)


def wait_until_nothing_runs(directory: Path) -> None:
    deadline = time.monotonic() + 30
    while left := running(directory):
        assert time.monotonic() < deadline, f"{left} outlived their parent"
        time.sleep(0.05)


def install(directory: Path, name: str, script: str) -> None:
    """Put a program that is a shell script into a directory."""
    directory.mkdir(exist_ok=True)
    program = directory / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for a stack, which is down after the test."""
    stack = tmp_path / "stack"
    yield stack
    LocalStack(stack, require_checkout() / DEFINITION).down(wipe=True)


@pytest.fixture
def cli(directory: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(directory, capsys)


@pytest.mark.services
@pytest.mark.timeout(400)
def test_a_stack_comes_up_once_keeps_its_data_and_is_gone_after_a_wipe(
    directory: Path, cli: Cli
) -> None:
    ups = [start_up(directory), start_up(directory)]
    said = [up.communicate(timeout=START_SECONDS)[1] for up in ups]
    assert [up.returncode for up in ups] == [0, 0], said
    assert sorted("Already up." in text for text in said) == [False, True]

    status = cli.json()
    assert list(status) == ["kafka", "registry", "redis"]
    assert all(list(service) == ["url", "pid", "ready"] for service in status.values())
    assert all(service["ready"] for service in status.values())
    assert cli("up") == (0, "", "Already up.\n")
    assert cli.json() == status
    lines = cli("env")[1].splitlines()
    assert f"export SURFACELOG_KAFKA={status['kafka']['url']}" in lines
    assert f"export SURFACELOG_REDIS={status['redis']['url']}" in lines

    admin = AdminClient({"bootstrap.servers": str(status["kafka"]["url"])})
    admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(30)
    Redis.from_url(str(status["redis"]["url"]), socket_timeout=5).set("kept", "yes")
    assert cli("down")[0] == 0
    assert running(directory) == []

    assert cli("up")[0] == 0
    again = cli.json()
    assert [entry["url"] for entry in again.values()] == [entry["url"] for entry in status.values()]
    admin = AdminClient({"bootstrap.servers": str(again["kafka"]["url"])})
    assert "kept" in admin.list_topics(timeout=10).topics
    assert Redis.from_url(str(again["redis"]["url"]), socket_timeout=5).get("kept") == b"yes"

    assert cli("down", "--wipe")[0] == 0
    assert not directory.exists()


@pytest.mark.services
@pytest.mark.parametrize(
    ("number", "last_started"), [(signal.SIGKILL, "kafka-1"), (signal.SIGINT, "redis")]
)
def test_nothing_outlives_an_up_that_is_killed_half_way(
    directory: Path, number: signal.Signals, last_started: str
) -> None:
    up = start_up(directory)
    wait_until_running(directory, last_started)
    os.killpg(up.pid, number)  # Ctrl-C reaches the whole group
    up.wait(30)
    wait_until_nothing_runs(directory)


@pytest.mark.services
def test_a_port_that_another_program_took_is_named(directory: Path, cli: Cli) -> None:
    layout = Layout(directory)
    layout.make()
    plan = Plan.new(1)
    plan.save(layout.plan)
    with socket.create_server(("127.0.0.1", plan.redis_port)):
        status, _, error = cli("up")
    assert status == 1
    assert f"Port {plan.redis_port} of redis is used by another program" in error


def test_without_java_up_says_what_to_install(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    status, _, error = cli("up")
    assert status == 1
    assert "No Java was found. Install a Java runtime of version 17" in error


def test_a_java_that_is_too_old_is_named(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "java", "echo 'openjdk version \"1.8.0_292\"' >&2")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    status, _, error = cli("up")
    assert status == 1
    assert "java is too old (openjdk version" in error


def test_without_maven_and_downloads_up_says_what_to_install(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "java", "echo 'openjdk version \"21.0.1\"' >&2")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    status, _, error = cli("up")
    assert status == 1
    assert "No Maven (mvn) was found" in error


def test_a_download_that_fails_says_why_and_is_not_taken_for_one_that_did_not(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "bin", "mvn", "echo '[ERROR] Unknown host repository'; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for _ in range(2):
        status, _, error = cli("up")
        assert status == 1
        assert "could not be downloaded: is there a network" in error
        assert "Unknown host repository" in error


def test_a_full_disk_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    full = SimpleNamespace(total=10**9, used=10**9, free=5_000_000)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: full)
    status, _, error = cli("up")
    assert status == 1
    assert "has 5 MB left" in error


def test_status_of_no_stack_is_all_down(cli: Cli) -> None:
    nothing = {"url": None, "pid": None, "ready": False}
    assert cli.json() == {"kafka": nothing, "registry": nothing, "redis": nothing}


def test_env_of_no_stack_is_an_error(cli: Cli) -> None:
    status, output, error = cli("env")
    assert (status, output) == (1, "")
    assert "surfacelog stack up" in error


def test_a_number_of_brokers_that_cannot_be_is_a_usage_error(cli: Cli) -> None:
    assert cli("up", "--brokers", "2")[0] == 2


@pytest.mark.parametrize("words", [["up"], ["down"]])
def test_a_directory_that_cannot_be_is_named(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seen to fail: a traceback."""
    directory = tmp_path / "file"
    directory.touch()
    status, output, error = Cli(directory, capsys)(*words)
    assert (status, output) == (1, "")
    assert error == (
        f"error (stack): {directory} cannot be written: File exists. Make it so, or use another.\n"
    )


def test_status_under_a_file_is_that_of_no_stack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert not Cli(tmp_path / "file" / "below", capsys).json()["kafka"]["ready"]
