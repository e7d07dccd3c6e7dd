"""Files, packed rows, headers and old events, by example (SEMANTICS 3, 8, 9)."""

from __future__ import annotations

import gzip
import json
import lzma
from typing import Any

import pytest
from tests.unit.logs import Log

from surfacelog.schemas.chunk_rows import pack_rows, unpack_row
from surfacelog.schemas.errors import CorruptLogError, UnsupportedLogError
from surfacelog.schemas.json_lenient import lenient_loads
from surfacelog.schemas.jsonl import event_lines, header_line, read_log
from surfacelog.schemas.legacy import upgrade_events
from surfacelog.schemas.session_header import check_header, child_header

HEADER: Any = {"type": "session", "version": 0, "id": "s", "createdAt": 1, "delegationDepth": 0}
START: Any = {"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}
END: Any = {"type": "turn/end", "seq": 1, "time": 1, "data": {"turn": 1}}


def file_of(*lines: Any, header: Any = HEADER) -> bytes:
    texts = [line if isinstance(line, str) else json.dumps(line) for line in (header, *lines)]
    return "".join(f"{text}\n" for text in texts).encode()


def test_a_file_gives_its_header_and_events() -> None:
    stored = read_log(file_of(START, END))
    assert stored.header == {name: v for name, v in HEADER.items() if name != "type"}
    assert stored.events == [START, END]
    assert stored.dropped_bytes == 0


def test_a_torn_last_line_is_dropped_and_counted() -> None:
    whole = file_of(START)
    stored = read_log(whole + b'{"type":"turn/e')
    assert stored.events == [START]
    assert (stored.committed_bytes, stored.dropped_bytes) == (len(whole), 15)
    assert stored.left_out == "torn tail: the last 15 bytes were dropped"
    stored = read_log(file_of(START, {**START, "seq": 5}))
    assert stored.left_out is not None
    assert stored.left_out.endswith("dropped, because line 3 has seq 5, expected 1")
    assert read_log(whole).left_out is None


@pytest.mark.parametrize("bad", ["garbage", "", '{"type":"text-chunks"}', json.dumps(END)])
def test_a_bad_line_is_corruption_only_before_a_complete_turn_end(bad: str) -> None:
    late = {**END, "seq": 7}
    with pytest.raises(CorruptLogError):
        read_log(file_of(START, {**START, "seq": 1}, bad, late))
    if "turn/end" not in bad:
        assert read_log(file_of(START, bad, {**START, "seq": 9})).events == [START]


def test_damage_is_told_by_the_line_of_the_file() -> None:
    late = {**END, "seq": 7}
    for bad, message in (
        ("{oops", "line 3 cannot be read: Expecting property name"),
        ("", "line 3 cannot be read: Expecting value at column 1"),
        (json.dumps({**START, "seq": 4}), "line 3 has seq 4, expected 1"),
        ("null", "line 3 is null"),
    ):
        with pytest.raises(CorruptLogError, match=message):
            read_log(file_of(START, bad, late))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xef\xbb\xbf" + file_of(START), "byte order mark"),
        (file_of(START).decode().encode("utf-16"), "UTF-16"),
        (gzip.compress(file_of(START)), "gzip: unpack it"),
        (lzma.compress(file_of(START)), "xz: unpack it"),
    ],
)
def test_a_file_that_is_no_plain_text_is_told_as_what_it_is(content: bytes, message: str) -> None:
    with pytest.raises(CorruptLogError, match=message):
        read_log(content)


def test_lines_may_end_as_on_windows() -> None:
    content = file_of(START, END).replace(b"\n", b"\r\n")
    assert read_log(content).events == [START, END]


def test_a_null_line_is_corruption_wherever_it_stands() -> None:
    with pytest.raises(CorruptLogError):
        read_log(file_of(START, "null"))


def test_another_version_is_unsupported_before_anything_else_is_judged() -> None:
    for version in (1, 99, -1):
        with pytest.raises(UnsupportedLogError):
            read_log(file_of("garbage", header={"version": version}))


@pytest.mark.parametrize(
    "header",
    [
        {**HEADER, "version": "0"},
        {**HEADER, "id": 7},
        {**HEADER, "createdAt": -1},
        {**HEADER, "origin": "other"},
        {**HEADER, "agentPreset": 1},
        {**HEADER, "sandboxMode": "x"},
        {name: value for name, value in HEADER.items() if name != "delegationDepth"},
        [],
        "not json",
    ],
)
def test_a_first_line_that_is_no_header_is_corruption(header: Any) -> None:
    with pytest.raises(CorruptLogError):
        read_log(file_of(START, header=header))


def test_an_importer_may_default_the_delegation_depth() -> None:
    header = {name: value for name, value in HEADER.items() if name != "delegationDepth"}
    assert read_log(file_of(header=header), default_depth=True).header["delegationDepth"] == 0


def test_a_file_without_a_line_is_corruption() -> None:
    for content in (b"", b'{"type":"session"}'):
        with pytest.raises(CorruptLogError):
            read_log(content)


def test_numbers_that_json_loses_are_read_as_what_they_are() -> None:
    assert str(lenient_loads("[-0, 1e400, -0.0, 1]")) == "[-0.0, inf, -0.0, 1]"
    assert lenient_loads("9" * 400) == float("inf")
    assert isinstance(lenient_loads("[" * 20_000 + "]" * 20_000), list)
    with pytest.raises(ValueError, match="NaN"):
        lenient_loads("NaN")


def chunks(*texts: str, **more: Any) -> Log:
    log = Log()
    for text in texts:
        log.chunk({"type": "text-delta", "index": 0, "text": text, **more})
    return log


def test_three_chunks_make_a_row_and_two_do_not() -> None:
    assert list(pack_rows(chunks("a", "b").events)) == chunks("a", "b").events
    log = chunks("a", "b", "c")
    log.events[2]["time"] = 900
    assert list(pack_rows(log.events)) == [
        {
            "type": "text-chunks",
            "seq0": 0,
            "time0": 1000,
            "data": {"turn": 1, "step": 1, "index": 0, "dt": [1, -101], "texts": ["a", "b", "c"]},
        }
    ]


@pytest.mark.parametrize(
    "change",
    [
        lambda event: event.update(ignorable=True),
        lambda event: event["data"].update(note=1),
        lambda event: event["data"]["chunk"].update(note=1),
        lambda event: event["data"]["chunk"].update(index=1),
        lambda event: event["data"].update(step=2),
        lambda event: event.update(seq=7),
        lambda event: event.update(time=1.5),
        lambda event: event.update(time=1002.0),
        lambda event: event.update(seq=2.0),
        lambda event: event.update(type=event.pop("type")),
        lambda event: event["data"].update(turn=event["data"].pop("turn")),
        lambda event: event["data"]["chunk"].update(index=event["data"]["chunk"].pop("index")),
    ],
)
def test_a_chunk_that_is_not_plain_or_not_alike_ends_the_run(change: Any) -> None:
    log = chunks("a", "b", "c", "d")
    change(log.events[2])
    assert list(pack_rows(log.events)) == log.events


def test_a_call_packs_only_with_the_same_name() -> None:
    log = Log()
    for name in ("bash", "bash", "bash", None, "bash"):
        chunk = {"type": "tool-call-delta", "index": 0, "id": "c"}
        named = {} if name is None else {"name": name}
        log.chunk({**chunk, **named, "argumentsDelta": "{"})
    packed = list(pack_rows(log.events))
    assert [record["type"] for record in packed] == ["tool-call-chunks", *["assistant/chunk"] * 2]
    assert [event for record in packed for event in unpack_row(record)] == log.events


ROW: Any = {"type": "text-chunks", "seq0": 3, "time0": 9,
       "data": {"turn": 1, "step": 1, "index": 0, "dt": [], "texts": ["a"]}}  # fmt: skip


def test_a_row_of_one_is_read() -> None:
    assert unpack_row(ROW) == [
        {
            "type": "assistant/chunk",
            "seq": 3,
            "time": 9,
            "data": {
                "turn": 1,
                "step": 1,
                "chunk": {"type": "text-delta", "index": 0, "text": "a"},
            },
        }
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"seq0": -1},
        {"seq0": 2**53 - 1, "data": {**ROW["data"], "dt": [1], "texts": ["a", "b"]}},
        {"time0": 0.5},
        {"extra": 1},
        {"data": {}},
        {"data": {**ROW["data"], "dt": [1]}},
        {"data": {**ROW["data"], "texts": []}},
        {"data": {**ROW["data"], "texts": [1]}},
        {"data": {**ROW["data"], "turn": "1"}},
        {"time0": 2**53 - 1, "data": {**ROW["data"], "dt": [1], "texts": ["a", "b"]}},
    ],
)
def test_a_row_that_is_not_exactly_one_is_corruption(change: Any) -> None:
    with pytest.raises(CorruptLogError):
        unpack_row({**ROW, **change})


def test_lines_are_written_as_they_are_read() -> None:
    header: Any = {"id": "s", "version": 0, "createdAt": 1, "cwd": "/w", "note": 1}
    assert json.loads(header_line(header)) == {**HEADER, "cwd": "/w"}
    log = chunks("a", "b", "c", "\U0001f642")
    text = header_line(header) + "".join(event_lines(log.events, packed=True))
    assert text.count("\n") == 2
    assert read_log(text.encode()).events == log.events


@pytest.mark.parametrize(
    "change",
    [
        {"version": True},
        {"createdAt": 1.5},
        {"cwd": "relative"},
        {"cwd": 1},
        {"parentSession": 1},
        {"seedLength": -1},
        {"origin": "agent"},
        {"delegationDepth": "0"},
    ],
)
def test_a_session_header_is_checked(change: Any) -> None:
    good: Any = {"version": 0, "id": "s", "createdAt": 1, "future": 1}
    check_header(good)
    with pytest.raises(CorruptLogError):
        check_header({**good, **change})


def test_a_child_names_its_parent_and_its_seed() -> None:
    child = child_header({"id": "p", "cwd": "/w"}, "c", seed_length=4, created_at=9)
    check_header(child)
    assert (child["parentSession"], child["seedLength"], child["cwd"]) == ("p", 4, "/w")


def upgraded(kind: str, data: Any, **more: Any) -> Any:
    event = {"type": kind, "seq": 5, "time": 1, "data": data, **more}
    return upgrade_events([event], "s")[0]


CONTENT = [{"type": "text", "text": "hi"}]


def test_messages_without_identity_get_one() -> None:
    source = {"kind": "user"}
    expected = {"id": "legacy-message:s:5", "role": "user", "content": CONTENT, "source": source}
    assert upgraded("user/message", {"content": CONTENT, "source": source})["data"] == expected
    steered = upgraded("steering/message", {"turn": 1, "content": CONTENT, "source": source})
    assert (steered["type"], steered["data"]) == ("user/message", expected)


def test_old_assistants_and_results_are_wrapped() -> None:
    old = {"turn": 1, "content": CONTENT, "provenance": {"provider": "p", "model": "m"}}
    message = upgraded("assistant/message", old)["data"]["message"]
    assert message["source"] == {"provider": "p", "model": "m", "kind": "model"}
    old = {"turn": 1, "callId": "c", "content": CONTENT, "isError": False}
    data = upgraded("tool/result", old)["data"]
    assert data["message"]["source"] == {"kind": "tool", "callId": "c"}
    assert data["message"]["content"][0]["content"] == CONTENT


def test_a_rewritten_old_result_keeps_its_identity() -> None:
    old = {"callId": "c", "content": CONTENT, "isError": False}
    events: Any = [
        {"type": "tool/result", "seq": 0, "data": old, "surfaceOp": "append"},
        {"type": "tool/result", "seq": 1, "data": old,
         "surfaceOp": {"op": "replace", "start": 0, "end": 0}},
    ]  # fmt: skip
    first, second = (dict[str, Any](event) for event in upgrade_events(events, "s"))
    assert first["data"]["message"]["id"] == second["data"]["message"]["id"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"kind": "aborted"}, {"kind": "aborted", "reason": {"kind": "legacy"}}),
        ({"kind": "disposed"}, {"kind": "aborted", "reason": {"kind": "disposed"}}),
        (
            {"kind": "error", "step": 1, "message": "x"},
            {"kind": "error", "error": {"message": "x", "code": "UNKNOWN"}},
        ),
        (
            {"kind": "error", "step": 1, "failure": {"message": "x", "code": "C", "status": 5}},
            {"kind": "error", "error": {"message": "x", "code": "C", "status": 5}},
        ),
        ({"kind": "completed"}, {"kind": "completed"}),
        ({"kind": "novel", "x": 1}, {"kind": "novel", "x": 1}),
    ],
)
def test_bare_turn_ends_are_structured(old: Any, new: Any) -> None:
    assert upgraded("turn/end", {"turn": 1, "reason": old})["data"]["reason"] == new


def test_a_turn_start_loses_its_trigger() -> None:
    assert upgraded("turn/start", {"turn": 1, "trigger": {"kind": "x"}})["data"] == {"turn": 1}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("turn/start", {"turn": 0, "trigger": {"kind": "x"}}),
        ("turn/end", {"turn": 1}),
        ("turn/end", {"turn": 1, "reason": {"kind": "completed", "x": 1}}),
        ("turn/end", {"turn": 1, "reason": {"kind": "error", "message": "x"}}),
        ("steering/message", {"turn": 1}),
        ("request/header-delta", {}),
        ("mode/set", {}),
        ("request/header", {"reason": "fallback"}),
    ],
)
def test_what_has_no_upgrade_is_corruption(kind: str, data: Any) -> None:
    with pytest.raises(CorruptLogError):
        upgraded(kind, data)


def test_todays_events_are_left_alone() -> None:
    log = chunks("a")
    log.user()
    log.assistant()
    log.result("c")
    assert all(
        new is old for new, old in zip(upgrade_events(log.events, "s"), log.events, strict=True)
    )
