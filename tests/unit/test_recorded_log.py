"""What import makes of a file before anything is written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from surfacelog.producers.recorded_log import (
    APPEND_EVENTS,
    RecordedLog,
    plan_appends,
    read_recording,
)
from surfacelog.schemas.codec import unpack_items
from surfacelog.schemas.errors import AdmissionError, CorruptLogError, UnsupportedLogError
from surfacelog.schemas.json_text import dumps
from surfacelog.schemas.records import AppendRequest, event_count

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject

RECORDINGS = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("*.jsonl"))
HEADER = '{"type":"session","version":0,"id":"s","createdAt":0,"delegationDepth":0}'
USER = (
    '{"type":"user/message","seq":0,"time":0,"data":{"id":"m","role":"user","content":[],'
    '"source":{"kind":"user"}%s},"surfaceOp":"append"}'
)


def recording(*lines: str, header: str = HEADER) -> bytes:
    return "".join(f"{line}\n" for line in (header, *lines)).encode()


def planned_events(appends: list[AppendRequest]) -> list[JsonObject]:
    events: list[JsonObject] = []
    for append in appends:
        events += unpack_items(append.items, len(events))
    return events


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
def test_a_recording_is_planned_as_it_is(file: Path) -> None:
    log = read_recording(file.read_bytes(), "s")
    appends = list(plan_appends(log))
    assert [dumps(event) for event in planned_events(appends)] == [dumps(e) for e in log.events]
    assert [append.append_seq for append in appends] == list(range(len(appends)))
    assert all(event_count(append.items) <= APPEND_EVENTS for append in appends)
    assert appends[-1].open is not None
    assert not appends[-1].open.loading


def test_there_are_48_recordings() -> None:
    assert len(RECORDINGS) == 48


def test_the_same_log_gets_the_same_writer_and_the_same_appends() -> None:
    content = RECORDINGS[0].read_bytes()
    first, again = read_recording(content, "s"), read_recording(content, "s")
    assert first.writer_id == again.writer_id
    assert list(plan_appends(first)) == list(plan_appends(again))
    shorter = content[: content.rindex(b"\n", 0, -1) + 1]
    assert read_recording(shorter, "s").writer_id != first.writer_id


def test_a_torn_tail_is_dropped_and_reported() -> None:
    log = read_recording(recording(USER % "") + b'{"type":"turn/st')
    assert len(log.events) == 1
    assert log.warnings == ("torn tail: the last 16 bytes were dropped",)


def test_damage_before_a_complete_turn_is_refused() -> None:
    end = '{"type":"turn/end","seq":2,"time":0,"data":{"turn":1,"reason":{"kind":"completed"}}}'
    with pytest.raises(CorruptLogError):
        read_recording(recording(USER % "", '{"garbage', end))


def test_bytes_that_are_no_text_are_refused() -> None:
    content = recording(USER % ',"note":"?"').replace(b"?", b"\xff")
    with pytest.raises(CorruptLogError, match="not UTF-8"):
        read_recording(content)


@pytest.mark.parametrize("zero", ["-0", "-0.0", "-0e5"])
def test_negative_zeros_become_zeros_with_a_warning(zero: str) -> None:
    log = read_recording(recording(USER % f',"x":[{zero},{{"y":{zero}}}]'))
    assert '"x":[0,{"y":0}]' in dumps(log.events[0])
    assert log.warnings == ("-0 is not lossless JSON: written as 0 in 2 places",)


def test_members_that_only_lone_surrogates_tell_apart_are_not_merged() -> None:
    with pytest.raises(CorruptLogError, match="seq 0"):
        read_recording(recording(USER % r',"\ud800":1,"\ud801":2'))


def test_lone_surrogates_are_replaced_with_a_warning() -> None:
    log = read_recording(recording(USER % ',"x":"\\ud83d"'))
    assert '"x":"\ufffd"' in dumps(log.events[0])
    assert log.warnings == ("1 lone surrogates became U+FFFD",)


def test_a_missing_delegation_depth_is_0_with_a_warning() -> None:
    header = '{"type":"session","version":0,"id":"s","createdAt":0}'
    log = read_recording(recording(header=header))
    assert log.header["delegationDepth"] == 0
    assert log.warnings == ("the header lacks delegationDepth: taken as 0",)


def test_a_placeholder_id_needs_another_one() -> None:
    header = HEADER.replace('"s"', '"{{sessionId}}"')
    with pytest.raises(AdmissionError) as refused:
        read_recording(recording(header=header))
    assert refused.value.refusal == "malformed"
    assert read_recording(recording(header=header), "other").header["id"] == "other"


@pytest.mark.parametrize(
    "event",
    [
        '{"type":"step/end","seq":0,"time":0.5,"data":{}}',
        '{"type":"title","seq":0,"time":0,"data":1e999,"ignorable":true}',
        (USER % "").replace('"surfaceOp"', '"sourceEventSeqs":[-1],"surfaceOp"'),
        (USER % "").replace('"append"', '{"op":"replace","start":5,"end":5}'),
    ],
)
def test_what_the_sequencer_would_refuse_is_corrupt(event: str) -> None:
    with pytest.raises(CorruptLogError):
        list(plan_appends(read_recording(recording(event))))


def test_an_unknown_type_is_unsupported_unless_it_may_be_skipped() -> None:
    event = '{"type":"new/type","seq":0,"time":0,"data":null}'
    with pytest.raises(UnsupportedLogError):
        read_recording(recording(event))
    skippable = event[:-1] + ',"ignorable":true}'
    assert len(read_recording(recording(skippable)).events) == 1


def test_another_version_is_unsupported() -> None:
    with pytest.raises(UnsupportedLogError):
        read_recording(recording(header=HEADER.replace('"version":0', '"version":1')))


def test_old_shapes_are_upgraded() -> None:
    old = json.loads(USER % "")
    del old["data"]["id"], old["data"]["role"]
    log: RecordedLog = read_recording(recording(json.dumps(old)))
    assert log.events[0]["data"] == {
        "content": [],
        "source": {"kind": "user"},
        "id": "legacy-message:s:0",
        "role": "user",
    }


def test_an_empty_log_opens_the_session_and_ends_the_load_at_once() -> None:
    (append,) = plan_appends(read_recording(recording()))
    assert append.items == ()
    assert append.open is not None
    assert not append.open.loading


@pytest.mark.parametrize("seq", ["-0", "0.0", "0e5"])
def test_an_event_has_the_seq_that_the_log_will_give_it(seq: str) -> None:
    line = (USER % "").replace('"seq":0', f'"seq":{seq}')
    log = read_recording(recording(line))
    assert dumps(log.events[0]) == USER % ""
    assert log.writer_id == read_recording(recording(USER % "")).writer_id


@pytest.mark.parametrize(
    "members", ['"version":-0', '"version":0.0', '"version":0,"seedLength":-0']
)
def test_a_header_is_made_lossless_too(members: str) -> None:
    log = read_recording(recording(USER % "", header=HEADER.replace('"version":0', members)))
    assert str(log.header["version"]) == "0"
    assert str(log.header.get("seedLength", 0)) == "0"
    assert len(list(plan_appends(log))) == 1


def test_a_header_that_no_session_could_be_opened_with_is_refused() -> None:
    header = HEADER.replace('"version":0', '"version":0,"seedLength":"x"')
    with pytest.raises(CorruptLogError, match="seedLength"):
        read_recording(recording(USER % "", header=header))
