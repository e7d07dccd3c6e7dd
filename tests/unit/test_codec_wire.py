from __future__ import annotations

import copy
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from tests.codec_cases import batch_of, read_by_fastavro, spelled, through_avro

from surfacelog.schemas.avro_binary import write_long, write_text
from surfacelog.schemas.avro_schema import record_schema
from surfacelog.schemas.codec import (
    RECORD_NAMES,
    Codec,
    DecodeError,
    EncodeError,
    WireSchemas,
    offline_codec,
)
from surfacelog.schemas.records import (
    AppendRequest,
    ChunkRun,
    CompactionRequest,
    EventBatch,
    Expectation,
    Item,
    Open,
    Opened,
    Receipt,
    SeqRange,
    SessionSnapshot,
    SnapshotMarker,
)

STRINGS = {"type": "array", "items": "string"}
CODEC = offline_codec()
TODO: Item = {
    "type": "todo/write",
    "time": 5,
    "data": {"todos": [{"content": "test", "status": "open"}]},
}
RUN = ChunkRun(9, 1, 1, 0, "tool-call", (0, -4), ("{", "", "}"), call_id="call-1", name="bash")
REQUEST = AppendRequest(
    session_id="session-1",
    writer_id="writer-1",
    epoch=1,
    append_seq=300,
    attempt=1,
    role="owner",
    items=(TODO, RUN),
    open=Open({"version": 0, "id": "x", "createdAt": 1.0}, loading=True),
    expect=Expectation(next_seq=4, generation=None, epoch=1),
)


def test_requests_and_batches_come_back() -> None:
    assert CODEC.decode_request(CODEC.encode_request(REQUEST)).request == REQUEST
    batch = batch_of([TODO, RUN])
    for given in (batch, replace(batch, opened=Opened({"id": "x"}, 3, False), items=())):
        assert CODEC.decode_batch(CODEC.encode_batch(given)) == given


def test_the_other_records_come_back() -> None:
    receipt = Receipt("s", "w", 1, 2, "refused", code="order", event_index=0, message="gap")
    assert CODEC.decode_receipt(CODEC.encode_receipt(receipt)) == receipt
    committed = Receipt("s", "w", 1, 2, "committed", first_seq=0, last_seq=9, epoch=1)
    assert CODEC.decode_receipt(CODEC.encode_receipt(committed)) == committed
    snapshot = SessionSnapshot("s", 5, 1, 0, 2, b"\0state")
    assert CODEC.decode_snapshot(CODEC.encode_snapshot(snapshot)) == snapshot
    marker = SnapshotMarker(3, 1 << 40)
    assert CODEC.decode_marker(CODEC.encode_marker(marker)) == marker
    for span in (None, SeqRange(3, 9)):
        wish = CompactionRequest("r", "s", "manual", 2, "cli", span, retain_tokens=None)
        assert CODEC.decode_compaction(CODEC.encode_compaction(wish)) == wish


def test_spliced_events_are_the_bytes_of_the_request() -> None:
    payload = CODEC.encode_request(REQUEST)
    decoded = CODEC.decode_request(payload)
    assert decoded.events is not None
    assert payload.endswith(decoded.events)
    batch = batch_of(decoded.request.items)
    spliced = CODEC.encode_batch(batch, decoded.events)
    assert spliced == CODEC.encode_batch(batch)
    assert CODEC.batch_events(spliced) == decoded.events == CODEC.encode_items(REQUEST.items)


def test_the_digest_ignores_the_attempt_and_nothing_else() -> None:
    def digest(request: AppendRequest) -> bytes:
        return CODEC.decode_request(CODEC.encode_request(request)).digest

    assert len(digest(REQUEST)) == 8
    assert digest(replace(REQUEST, attempt=200)) == digest(REQUEST)
    for other in (
        replace(REQUEST, append_seq=301),
        replace(REQUEST, items=(RUN,)),
        replace(REQUEST, open=None),
        replace(REQUEST, expect=None),
        replace(REQUEST, writer_id="writer-2"),
    ):
        assert digest(other) != digest(REQUEST)


@pytest.mark.parametrize("payload", [None, b"", b"\0", b"\0\0\0\0\1", b"garbage bytes", b"\1" * 90])
def test_what_is_no_record_is_refused(payload: bytes | None) -> None:
    for decode in (CODEC.decode_request, CODEC.decode_batch, CODEC.decode_receipt):
        with pytest.raises(DecodeError):
            decode(payload)


def test_a_cut_or_longer_record_is_refused() -> None:
    payload = CODEC.encode_request(REQUEST)
    for length in range(len(payload)):
        with pytest.raises(DecodeError):
            CODEC.decode_request(payload[:length])
    with pytest.raises(DecodeError):
        CODEC.decode_request(payload + b"\0")


def test_an_unknown_schema_or_one_of_another_record_is_refused() -> None:
    payload = CODEC.encode_request(REQUEST)
    for schema_id in (b"\0\0\0\7", b"\xff\xff\xff\xff", b"\0\0\0\2"):
        with pytest.raises(DecodeError):
            CODEC.decode_request(payload[:1] + schema_id + payload[5:])


def _with_events(events: bytes) -> bytes:
    return CODEC.encode_request(replace(REQUEST, items=()))[:-1] + events


def _run_of(dt: bytes, deltas: bytes) -> bytes:
    """Encode one run of text whose two columns are given as bytes."""
    out = bytearray(b"\2\2")
    for number in (9, 1, 1, 0):
        write_long(number, out)
    write_text("text", out)
    return bytes(out) + b"\0\0" + dt + deltas + b"\0"


def _longs(*counts: int) -> bytes:
    out = bytearray()
    for count in counts:
        write_long(count, out)
    return bytes(out)


DELTA = b"\2\2x\0"
DELTAS_65 = _longs(65) + b"\2x" * 65 + b"\0"


def test_blocks_may_be_split_but_not_lie() -> None:
    """A negative count has a size behind it that readers skip unseen; 64 is as long as -64, 0."""
    whole = _with_events(_run_of(_longs(64) + b"\0" * 65, DELTAS_65))
    split = _with_events(_run_of(_longs(60) + b"\0" * 60 + _longs(4) + b"\0" * 5, DELTAS_65))
    assert CODEC.decode_request(split).request == CODEC.decode_request(whole).request
    lying = _with_events(_run_of(_longs(-64, 0) + b"\0" * 65, DELTAS_65))
    assert len(lying) == len(whole)
    with pytest.raises(DecodeError):
        CODEC.decode_request(lying)


@pytest.mark.parametrize(
    "events",
    [
        _longs(1 << 62),
        _longs(1) + b"\2" + b"\0" * 5,
        _longs(-(1 << 63), 1) + b"\0",
        b"\x80\0" + b"\0",
        b"\xff" * 10 + b"\0",
        _run_of(_longs(1 << 62), DELTAS_65),
        _run_of(_longs(63) + b"\0" * 64, DELTAS_65),
        _run_of(b"\0", b"\0"),
        _run_of(b"\0", _longs(1, -3) + b"\0"),
        _run_of(b"\0", _longs(1, 1 << 61) + b"\0"),
        _run_of(b"\0", b"\2\2\xff\0"),
        _run_of(b"\0", b"\2\5xx\0"),
        _run_of(b"\0", b"\2\x84\0xx\0"),
        _run_of(b"\0", DELTA).replace(b"\x12\2\2", b"\x92\0\2\2"),
    ],
)
def test_lying_counts_and_lengths_are_refused_in_little_memory(events: bytes) -> None:
    payload = _with_events(events)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            CODEC.decode_request(payload)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_json_text_that_is_not_lossless_is_refused() -> None:
    item: Item = {"type": "x/y", "time": 1, "data": ["......"]}
    payload = CODEC.encode_request(replace(REQUEST, items=(item,)))
    assert payload.count(b'"......"') == 1
    for text in (
        b"1111e999",
        b"-0.00000",
        b'"\\ud800"',
        b'"x"y"zw"',
        b'{"a":12]',
        b'"\xff\xfe-xx"',
    ):
        with pytest.raises(DecodeError):
            CODEC.decode_request(payload.replace(b'"......"', text))


def test_data_of_another_type_is_refused() -> None:
    payload = CODEC.encode_request(replace(REQUEST, items=(TODO,)))
    with pytest.raises(DecodeError):
        CODEC.decode_request(payload.replace(b"todo/write", b"turn/start"))


@pytest.mark.parametrize("order", [b"\0\0", b"\1", b"\1\2", b"\1\0\2"])
def test_an_order_that_is_no_permutation_is_refused(order: bytes) -> None:
    item: Item = {"type": "turn/end", "time": 1, "data": {"reason": {"kind": "x"}, "turn": 1}}
    payload = CODEC.encode_items((item,))
    assert payload.count(b"\2\4\1\0") == 1
    changed = payload.replace(b"\2\4\1\0", b"\2" + _longs(len(order)) + order)
    with pytest.raises(DecodeError):
        CODEC.decode_request(_with_events(changed))


@pytest.mark.parametrize("extra", ['{"turn":2}', "[]", "null", '{"step":1}'])
def test_extra_members_that_the_record_names_are_refused(extra: str) -> None:
    item: Item = {"type": "step/end", "time": 1, "data": {"turn": 1, "step": 1, "zzzz": 1}}
    out = bytearray()
    write_text('{"zzzz":1}', out)
    changed = bytearray()
    write_text(extra, changed)
    payload = CODEC.encode_items((item,))
    assert payload.count(out) == 1
    with pytest.raises(DecodeError):
        CODEC.decode_request(_with_events(payload.replace(bytes(out), bytes(changed))))


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"turn": True, "step": 1},
        {"turn": 1.0, "step": 1},
        {"turn": 2**63, "step": 1},
        {"turn": 1},
        {"turn": None, "step": 1},
    ],
)
def test_data_that_does_not_fit_its_record_is_an_extension(data: Any) -> None:
    event: Item = {"type": "step/end", "time": 1, "data": data}
    payload = CODEC.encode_batch(batch_of([event]))
    ((_, written),) = read_by_fastavro(payload)["events"]
    assert written["data"][0] == "surfacelog.Extension"
    (decoded,) = CODEC.decode_batch(payload).items
    assert spelled([decoded]) == spelled([event])  # type: ignore[list-item]  # no run was written


def test_a_broken_envelope_reaches_admission() -> None:
    events: list[Any] = [
        {"type": "step/end", "time": 1.5, "data": {}},
        {"type": "step/end", "time": 1, "data": {}, "ignorable": False},
        {"type": "step/end", "time": 1},
        {"type": 7, "time": 1, "data": None},
        {"type": "user/message", "time": 1, "data": None, "surfaceOp": "APPEND"},
        {"type": "user/message", "time": 1, "data": None, "sourceEventSeqs": [1.0]},
        {},
    ]
    payload = CODEC.encode_batch(batch_of(events))
    assert [written["data"][0] for _, written in read_by_fastavro(payload)["events"]] == [
        "surfacelog.Malformed"
    ] * len(events)
    assert spelled(list(CODEC.decode_batch(payload).items)) == spelled(events)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -0.0, "huge"], ids=["NaN", "infinity", "-0", "10**400"]
)
def test_what_json_cannot_carry_is_not_encoded(value: float | str) -> None:
    value = 10**400 if value == "huge" else value  # too long for a test's name
    with pytest.raises(EncodeError):
        CODEC.encode_items(({"type": "x/y", "time": 1, "data": {"deep": [value]}},))


def test_a_cyclic_event_is_not_encoded() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(EncodeError):
        CODEC.encode_items(({"type": "x/y", "time": 1, "data": cycle},))


def test_keys_that_would_become_the_same_are_not_encoded() -> None:
    keys: Any = dict.fromkeys(("\ud800", "\udfff"), 1)
    with pytest.raises(EncodeError, match="lone surrogates"):
        offline_codec().encode_items([{"type": "x", "time": 0, "ignorable": True, "data": keys}])
    opening = AppendRequest("s", "w", 0, 0, 0, "owner", open=Open({"version": 0, **keys}))
    with pytest.raises(EncodeError, match="lone surrogates"):
        offline_codec().encode_request(opening)


def test_lone_surrogates_are_replaced_and_counted() -> None:
    codec = offline_codec()
    item: Item = {"type": "x/y", "time": 1, "data": {"\ud800": "a\udfff", "pair": "\ud83d\ude00"}}
    run = replace(RUN, deltas=("\ud83d", "\ude00", "x"))
    opening = Open({"cwd": "/\udc00"})
    payload = codec.encode_request(replace(REQUEST, items=(item, run), open=opening))
    request = codec.decode_request(payload).request
    assert request.items[0]["data"] == {"\ufffd": "a\ufffd", "pair": "\U0001f600"}  # type: ignore[index]
    assert request.items[1] == replace(RUN, deltas=("\ufffd", "\ufffd", "x"))
    assert request.open == Open({"cwd": "/\ufffd"})
    assert codec.replaced == 5


def _newer(name: str, change: Any) -> Codec:
    """Return a codec of a later version, which registered its schema under the id 77."""
    own = {each: copy.deepcopy(record_schema(each)) for each in RECORD_NAMES}
    for each in ("AppendRequest", "EventBatch"):
        change({record["name"]: record for record in _records(own[each])})
    return Codec(WireSchemas(own, dict.fromkeys(RECORD_NAMES, 1) | {name: 77}, _nowhere))


def _nowhere(schema_id: int) -> Any:
    raise DecodeError(f"no schema {schema_id}")


def _records(schema: Any) -> list[Any]:
    if isinstance(schema, list):
        return [record for branch in schema for record in _records(branch)]
    if isinstance(schema, str):
        return []
    fields = schema.get("fields", [])
    own = [schema] if fields else []
    return own + _records(schema.get("items", "")) + _records([field["type"] for field in fields])


def _reading(newer: Codec, name: str) -> Codec:
    own = {each: record_schema(each) for each in RECORD_NAMES}
    ids = {each: number for number, each in enumerate(RECORD_NAMES, 1)}
    return Codec(WireSchemas(own, ids, lambda _: newer.schemas.own[name]))


def _optional(name: str, kind: Any, **properties: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, **properties}


def test_a_batch_of_a_newer_schema_is_read_losslessly_and_kept_in_extra() -> None:
    def change(records: dict[str, Any]) -> None:
        records["Todo"]["fields"].insert(1, _optional("due_day", "long", json="dueDay"))
        records["ToolCall"]["fields"].insert(-2, _optional("tags", STRINGS))

    newer = _newer("EventBatch", change)
    events: list[Any] = [
        {
            "type": "todo/write",
            "time": 1,
            "data": {"todos": [{"content": "a", "dueDay": 15, "status": "open"}]},
        },
        {
            "type": "tool/call",
            "time": 2,
            "data": {
                "turn": 1,
                "step": 1,
                "callId": "c",
                "name": "n",
                "arguments": "{}",
                "tags": ["x"],
            },
        },
    ]
    payload = newer.encode_batch(batch_of(events))
    older = _reading(newer, "EventBatch")
    batch = older.decode_batch(payload)
    assert spelled(list(batch.items)) == spelled(events)  # type: ignore[arg-type]
    again = read_by_fastavro(older.encode_batch(batch))
    assert again["events"][0][1]["data"][1]["todos"][0]["extra"] == '{"dueDay":15}'
    assert again["events"][1][1]["data"][1]["extra"] == '{"tags":["x"]}'


def test_events_of_a_newer_schema_are_not_spliced() -> None:
    def more_events(records: dict[str, Any]) -> None:
        records["Todo"]["fields"].insert(-2, _optional("due", "string"))

    def more_around(records: dict[str, Any]) -> None:
        if "AppendRequest" in records:
            records["AppendRequest"]["fields"].insert(0, _optional("trace", "string"))
        records["Todo"]["doc"] = "Comments do not matter."

    for change, spliced in ((more_events, False), (more_around, True)):
        newer = _newer("AppendRequest", change)
        decoded = _reading(newer, "AppendRequest").decode_request(newer.encode_request(REQUEST))
        assert decoded.request == REQUEST
        assert (decoded.events is not None) is spliced


def test_a_foreign_schema_that_could_mislead_is_refused() -> None:
    def other_type(records: dict[str, Any]) -> None:
        records["AppendRequest"]["fields"][0]["type"] = "long"

    def missing(records: dict[str, Any]) -> None:
        del records["AppendRequest"]["fields"][2]

    def other_name(records: dict[str, Any]) -> None:
        records["AppendRequest"]["name"] = "Receipt"

    def endless(records: dict[str, Any]) -> None:
        records["Todo"]["fields"].append(_optional("more", "Todo"))

    def weightless(records: dict[str, Any]) -> None:
        empty = {"type": "record", "name": "Empty", "fields": []}
        records["Todo"]["fields"].append(_optional("more", {"type": "array", "items": empty}))

    def enumeration(records: dict[str, Any]) -> None:
        kind = {"type": "enum", "name": "Kind", "symbols": ["A"]}
        records["Todo"]["fields"].append(_optional("kind", kind))

    payload = CODEC.encode_request(REQUEST)
    foreign = payload[:1] + (77).to_bytes(4, "big") + payload[5:]
    for change in (other_type, missing, other_name, endless, weightless, enumeration):
        schema = copy.deepcopy(record_schema("AppendRequest"))
        change({record["name"]: record for record in _records(schema)})
        reader = Codec(replace(CODEC.schemas, lookup=lambda _, schema=schema: schema))  # type: ignore[misc]
        with pytest.raises(DecodeError):
            reader.decode_request(foreign)


def test_numbers_beyond_64_bits_in_a_record_are_not_encoded() -> None:
    with pytest.raises(EncodeError):
        CODEC.encode_request(replace(REQUEST, epoch=1 << 63))
    batch: EventBatch = replace(batch_of([]), first_seq=-(1 << 63) - 1)
    with pytest.raises(EncodeError):
        CODEC.encode_batch(batch)


def test_citations_of_the_same_append_are_resolved_on_the_way_out() -> None:
    cited: list[Any] = [
        {"type": "turn/start", "time": 1, "data": {"turn": 1}},
        {"type": "assistant/message", "time": 1, "data": None, "sourceEventSeqs": [-1, 0]},
    ]
    assert through_avro(CODEC, cited)[1]["sourceEventSeqs"] == [0, 0]
