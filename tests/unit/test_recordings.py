"""The recorded sessions against what the reference derives from them (tests/data/recordings)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.logs import Log

from surfacelog.processors.cli.main import execute
from surfacelog.projections.fold import fold_log
from surfacelog.projections.loading import load_log
from surfacelog.projections.transcript import transcript
from surfacelog.schemas.event_rules import require_known_types
from surfacelog.schemas.json_text import dumps
from surfacelog.schemas.jsonl import event_lines, header_line, read_log

RECORDINGS = Path(__file__).parents[1] / "data" / "recordings"
INDEX: list[dict[str, Any]] = json.loads((RECORDINGS / "INDEX.json").read_text())


def recorded(name: str) -> Any:
    return read_log((RECORDINGS / name).read_bytes(), default_depth=True)


def short_sha(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def ranges(folded: Any, expected: list[dict[str, Any]]) -> list[Any]:
    found = [folded.compactable_range(one["retainTokens"]) for one in expected]
    return [None if one is None else {"start": one.start, "end": one.end} for one in found]


def test_the_index_names_every_recording() -> None:
    assert {one["file"] for one in INDEX} == {path.name for path in RECORDINGS.glob("*.jsonl")}
    assert len(INDEX) == 48


@pytest.mark.parametrize("expected", INDEX, ids=[one["file"] for one in INDEX])
def test_a_recording_folds_as_the_reference_folds_it(expected: dict[str, Any]) -> None:
    stored = recorded(expected["file"])
    require_known_types(stored.events)
    folded = fold_log(stored.events)
    assert stored.dropped_bytes == 0
    assert folded.events == expected["events"]
    assert list(folded.nodes) == expected["surface"]
    replaced = [
        {"seq": r.seq, "start": r.start, "end": r.end, "shadowedSeqs": list(r.shadowed)}
        for r in folded.replacements
    ]
    assert replaced == expected["replacements"]
    messages = [message for message in folded.messages if message is not None]
    assert short_sha(messages) == expected["messages_sha"]
    assert short_sha(folded.header) == expected["request_header_sha"]
    assert folded.context == expected["request_context"]
    assert list(folded.prices) == expected["node_tokens"]
    assert folded.tokens()["total"] == expected["total_tokens"]
    if expected["surface_tokens"] is not None:
        assert folded.surface_tokens == expected["surface_tokens"]
    assert ranges(folded, expected["range"]) == [one["range"] for one in expected["range"]]


@pytest.mark.parametrize("expected", INDEX, ids=[one["file"] for one in INDEX])
def test_a_recording_is_printed_and_read_again(expected: dict[str, Any]) -> None:
    stored = recorded(expected["file"])
    for packed in (False, True):
        lines = [header_line(stored.header), *event_lines(stored.events, packed=packed)]
        again = read_log("".join(lines).encode())
        assert again.header == stored.header
        assert dumps(again.events) == dumps(stored.events)  # type: ignore[arg-type]  # key order


@pytest.mark.parametrize("expected", INDEX, ids=[one["file"] for one in INDEX])
def test_the_command_line_prints_the_fold(
    expected: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["fold", str(RECORDINGS / expected["file"]), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert set(printed) == {
        "session", "events", "nodes", "replacements", "messages", "header", "context", "tokens",
        "node_tokens",
    }  # fmt: skip
    assert printed["events"] == expected["events"]
    assert printed["nodes"] == expected["surface"]
    assert printed["replacements"] == expected["replacements"]
    assert short_sha(printed["messages"]) == expected["messages_sha"]
    assert short_sha(printed["header"]) == expected["request_header_sha"]
    assert printed["context"] == expected["request_context"]
    assert printed["node_tokens"] == expected["node_tokens"]
    assert printed["tokens"]["total"] == expected["total_tokens"]
    assert ("reason" in printed["tokens"]) == (expected["total_tokens"] is None)


@pytest.mark.parametrize("place", ["content", "source"])
def test_the_command_line_refuses_what_it_could_not_print(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Log()
    log.user()
    log.events[0]["data"][place] = "HERE"
    text = "".join(
        [
            header_line({"version": 0, "id": "s", "createdAt": 0}),
            *event_lines(log.events, packed=False),
        ]
    )
    (tmp_path / "log.jsonl").write_text(text.replace('"HERE"', '[{"type":"video","x":1e400}]'))
    assert execute(["fold", str(tmp_path / "log.jsonl"), "--json"]) == 1
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "corrupt"


def test_recordings_load_balanced_and_stay_as_they_were_loaded() -> None:
    for one in INDEX:
        stored = recorded(one["file"])
        header = {**stored.header, "cwd": "/"}
        loaded = load_log(header, stored.events)
        again = load_log(header, [*loaded.events, *loaded.closers])
        assert again.closers == []
        assert dumps(again.events) == dumps([*loaded.events, *loaded.closers])  # type: ignore[arg-type]  # JSON


def test_a_compaction_leaves_the_transcript() -> None:
    stored = recorded("headless-agent-compaction-recovery-session.jsonl")
    seen = [event["seq"] for event in transcript(stored.events)]
    assert 4 in seen  # shadowed since
    assert 21 not in seen  # the checkpoint, which only the model sees
