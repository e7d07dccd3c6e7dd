from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

from surfacelog.processors.cli.find_settings import SettingsError, find_settings
from surfacelog.processors.cli.main import COMMANDS, execute
from surfacelog.processors.health import READY, serve_health
from surfacelog.processors.stack.plan import Plan
from surfacelog.processors.stack.services import Layout

if TYPE_CHECKING:
    from pathlib import Path

CAN_PRINT_FOR_EVER = """
import sys
from surfacelog.processors.cli import main, output

def chatter():
    while True:
        output.print_line("line")

output.chatter = chatter
main.COMMANDS["chatter"] = "output:chatter"
sys.argv = ["surfacelog", "chatter"]
main.main()
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without a stack, as the working directory; no endpoint in the environment."""
    (tmp_path / "deploy" / "local").mkdir(parents=True)
    (tmp_path / "deploy" / "local" / "pom.xml").touch()
    for name in ("KAFKA", "REGISTRY", "REDIS"):
        monkeypatch.delenv(f"SURFACELOG_{name}", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def plan(checkout: Path) -> Plan:
    """The plan of the checkout's default stack."""
    plan = Plan.new(brokers=3)
    layout = Layout(checkout / ".surfacelog")
    layout.make()
    plan.save(layout.plan)
    return plan


def test_a_command_in_a_checkout_finds_its_stack(
    checkout: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkout / "deploy")
    settings = find_settings()
    assert (settings.kafka, settings.registry) == (plan.kafka_url, plan.registry_url)
    assert (settings.redis, settings.replication) == (plan.redis_url, 3)


def test_one_endpoint_in_the_environment_leaves_the_stack_out(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURFACELOG_REDIS", "redis://elsewhere:6379/0")
    settings = find_settings()
    assert settings.redis == "redis://elsewhere:6379/0"
    assert settings.kafka != plan.kafka_url


@pytest.mark.usefixtures("checkout")
def test_without_a_stack_the_defaults_hold() -> None:
    assert find_settings().kafka == "127.0.0.1:9092"


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURFACELOG_PARTITIONS", "many")
    with pytest.raises(SettingsError, match="SURFACELOG_PARTITIONS"):
        find_settings()


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"SUMMARIZER": "openai"}, "SUMMARIZER_URL does not say where"),
        ({"SUMMARIZER_URL": "http://m/v1"}, "extractive, which calls no model"),
        ({"SUMMARIZER_API_KEY": "k"}, "extractive, which calls no model"),
        ({"SUMMARIZER": "openai", "SUMMARIZER_URL": "m:8000"}, "SUMMARIZER_URL: String should"),
        ({"COMPACTION_RETAIN_RATIO": ".1", "COMPACTION_RETAIN_TOKENS": "5"}, "is 0.1 and .* is 5"),
        ({"COMPACTION_MODEL_POLICIES": "[{]"}, "it is JSON"),
        (
            {"COMPACTION_MODEL_POLICIES": '[{"provider": "p"}]'},
            r"COMPACTION_MODEL_POLICIES\[0\]\.model: Field required",
        ),
        (
            {"COMPACTION_MODEL_POLICIES": '[{"provider": "p", "model": "m", "windw": 7}]'},
            r"COMPACTION_MODEL_POLICIES\[0\]\.windw: there is no such member",
        ),
        (
            {"COMPACTION_MODEL_POLICIES": '[{"provider":"p","model":"m","threshold_ratio":1.5}]'},
            r"\[0\]\.threshold_ratio: Input should be less than or equal to 1, not 1\.5",
        ),
        ({"COMPACTION_THRESHOLD_RATIO": "0"}, "THRESHOLD_RATIO: .* greater than 0, not 0"),
    ],
)
def test_settings_that_contradict_each_other_are_named_in_a_sentence(
    variables: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(f"SURFACELOG_{name}", value)
    with pytest.raises(SettingsError, match=sentence) as refused:
        find_settings()
    assert not refused.value.message.startswith("Value error")


@pytest.mark.usefixtures("checkout")
def test_an_error_is_one_json_object_on_stderr(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SURFACELOG_PARTITIONS", "0")
    assert execute(["sessions", "--json"]) == 1
    printed = capsys.readouterr()
    error = json.loads(printed.err)["error"]
    assert (printed.out, error["code"]) == ("", "settings")
    assert "SURFACELOG_PARTITIONS" in error["message"]


@pytest.mark.parametrize("process", ["all", "projector", "compactor"])
def test_policies_that_contradict_each_other_start_nothing(
    process: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: `run all` restarted two processes again and again that could not start."""
    monkeypatch.setenv("SURFACELOG_COMPACTION_THRESHOLD_RATIO", "0.1")
    assert execute(["run", process]) == 1
    assert capsys.readouterr().err == (
        "error (compaction_policy): the settings: retain_ratio 0.16 is not below threshold_ratio"
        " 0.1\n"
    )


@pytest.mark.parametrize("command", [["open", "s"], ["import", "some.jsonl"]])
def test_without_kafka_a_command_says_so_in_seconds(
    command: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen to fail: 15 s, and a line of librdkafka for each attempt to connect."""
    monkeypatch.setenv("SURFACELOG_KAFKA", "127.0.0.1:1")
    importlib.import_module("surfacelog.processors.cli.transfer")  # not what is measured
    began = time.monotonic()
    assert execute(command) == 1
    assert time.monotonic() - began < 12
    printed = capfd.readouterr()
    told, hint = printed.err.splitlines()
    assert told.startswith("error (service): Kafka at 127.0.0.1:1 does not answer")
    assert "surfacelog stack up" in hint
    assert printed.out == ""


@pytest.mark.parametrize("words", [["nonsense"], ["stack", "up", "--nonsense"], ["run", "x"]])
def test_a_wrong_command_line_exits_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(words) == 2
    assert capsys.readouterr().out == ""


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        assert execute([name, "--help"]) == 0
        assert f"surfacelog {name}" in capsys.readouterr().out
    assert execute(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n  {name} " in listed for name in COMMANDS)


def test_a_reader_that_has_enough_ends_a_command_quietly() -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", CAN_PRINT_FOR_EVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"line\n"
    writer.stdout.close()
    assert writer.stderr is not None
    assert writer.stderr.read() == b""
    assert writer.wait(10) == 1


def test_output_that_cannot_be_written_is_a_sentence() -> None:
    """Seen to fail: a traceback of `export` onto a full disk."""
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", CAN_PRINT_FOR_EVER], stdout=full, stderr=subprocess.PIPE
        )
    assert ended.returncode == 1
    told = b"error (output): the output cannot be written: No space left on device\n"
    assert ended.stderr == told


def test_a_process_is_ready_when_it_says_so() -> None:
    port = serve_health(0)

    def get(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    assert get("/healthz")[0] == 200
    READY.set(0)
    assert get("/readyz")[0] == 503
    READY.set(1)
    assert get("/readyz")[0] == 200
    assert "surfacelog_ready 1.0" in get("/metrics")[1]
    assert get("/nothing")[0] == 404
    READY.set(0)
