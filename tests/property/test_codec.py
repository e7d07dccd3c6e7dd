from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.codec_cases import (
    RECORDINGS,
    batch_of,
    read_by_fastavro,
    recorded_events,
    spelled,
    write_by_fastavro,
)

from surfacelog.schemas.chunk_runs import run_events
from surfacelog.schemas.codec import DecodeError, offline_codec, pack_items, unpack_items
from surfacelog.schemas.event_types import CORE_TYPES
from surfacelog.schemas.json_text import dumps, js_dumps, loads, replace_lone_surrogates
from surfacelog.schemas.records import AppendRequest, ChunkRun, Expectation, Open

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

CODEC = offline_codec()
LONG = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=()), max_size=12)  # surrogates too
SCALARS = (
    st.none()
    | st.booleans()
    | LONG
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda number: number != 0)
    | TEXT
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def _core_events() -> list[JsonObject]:
    """Return one recorded event for every shape of data that the recordings have."""
    shapes: dict[str, JsonObject] = {}
    for path in RECORDINGS:
        for event in recorded_events(path):
            shape = f"{event['type']} {_shape(event)}"
            shapes.setdefault(shape, {key: value for key, value in event.items() if key != "seq"})
    return list(shapes.values())


def _shape(value: JsonValue) -> str:
    if isinstance(value, dict):
        return str({key: _shape(child) for key, child in value.items()})
    return str(sorted({_shape(child) for child in value})) if isinstance(value, list) else ""


CORE_EVENTS = _core_events()


@st.composite
def altered_events(draw: st.DrawFn) -> JsonObject:
    """Make a recorded event unusual somewhere: members added, dropped, replaced, reordered."""
    event = copy.deepcopy(draw(st.sampled_from(CORE_EVENTS)))
    for _ in range(draw(st.integers(0, 3))):
        objects = list(_objects(event))
        place = draw(st.sampled_from(objects))
        change = draw(st.sampled_from(["add", "drop", "replace", "order"]))
        if change == "add":
            place[draw(TEXT.filter(lambda key: key != "seq"))] = draw(JSON)
        elif place and change == "drop":
            del place[draw(st.sampled_from(list(place)))]
        elif place and change == "replace":
            place[draw(st.sampled_from(list(place)))] = draw(JSON)
        else:
            members = draw(st.permutations(list(place.items())))
            place.clear()
            place.update(members)
    return event


def _objects(value: JsonValue) -> list[dict[str, Any]]:
    """Return every object in a value, the outermost first."""
    if isinstance(value, dict):
        return [value, *(found for child in value.values() for found in _objects(child))]
    if isinstance(value, list):
        return [found for child in value for found in _objects(child)]
    return []


@st.composite
def unknown_events(draw: st.DrawFn) -> JsonObject:
    """Make an event of any type with any data."""
    kind = draw(TEXT | st.sampled_from(sorted(CORE_TYPES)))
    event: JsonObject = {"type": kind, "time": draw(LONG), "data": draw(JSON)}
    if draw(st.booleans()):
        event["ignorable"] = True
    return event


EVENTS = st.lists(altered_events() | unknown_events(), max_size=5)


def _decoded(payload: bytes) -> list[JsonObject]:
    """Return the events of a batch without seq, citations as they travel."""
    events: list[JsonObject] = []
    for item in CODEC.decode_batch(payload).items:
        events += run_events(item) if isinstance(item, ChunkRun) else [item]
    return events


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(EVENTS)
def test_any_events_survive_with_order_and_number_types(events: list[JsonObject]) -> None:
    before = CODEC.replaced
    payload = CODEC.encode_batch(batch_of(events))
    clean, count = replace_lone_surrogates(list(events))
    assert isinstance(clean, list)
    assert [dumps(event) for event in _decoded(payload)] == [dumps(event) for event in clean]
    assert CODEC.replaced == before + count
    assert write_by_fastavro(read_by_fastavro(payload)) == payload[5:]


@settings(max_examples=25, deadline=None)
@given(st.integers(1_000, 6_000), st.sampled_from(CORE_EVENTS), st.booleans())
def test_deep_nesting_survives_anywhere(depth: int, event: JsonObject, whole: bool) -> None:
    deep: JsonValue = 1.0
    for _ in range(depth):
        deep = {"a": deep} if whole else [deep]
    data = event["data"]
    altered: JsonObject = {**event, "data": deep if whole or not isinstance(data, dict) else data}
    if not whole and isinstance(data, dict):
        altered["data"] = {**data, "unknown": deep}
    payload = CODEC.encode_batch(batch_of([altered]))
    assert spelled(_decoded(payload)) == spelled([altered])


@st.composite
def delta_chunks(draw: st.DrawFn) -> JsonObject:
    kind = draw(st.sampled_from(["text-delta", "reasoning-delta", "tool-call-delta"]))
    chunk: JsonObject = {"type": kind, "index": draw(st.integers(0, 1))}
    if kind == "tool-call-delta":
        chunk["id"] = draw(st.sampled_from(["", "call-1"]))
        if draw(st.booleans()):
            chunk["name"] = draw(st.sampled_from(["", "bash"]))
        chunk["argumentsDelta"] = draw(st.text(max_size=3))
    else:
        chunk["text"] = draw(st.text(max_size=3))
    data: JsonObject = {"turn": 1, "step": draw(st.integers(1, 2)), "chunk": chunk}
    time = draw(LONG | st.integers(0, 9))
    return {"type": "assistant/chunk", "time": time, "data": data}


@settings(max_examples=150, deadline=None)
@given(st.lists(delta_chunks() | altered_events(), max_size=12))
def test_runs_pack_and_unpack_exactly(events: list[JsonObject]) -> None:
    packed = pack_items(events)
    unpacked = [event for item in packed for event in _unpacked(item)]
    assert spelled(unpacked) == spelled(events)
    numbered = list(unpack_items(packed, 40))
    assert [event["seq"] for event in numbered] == list(range(40, 40 + len(events)))


def _unpacked(item: JsonObject | ChunkRun) -> list[JsonObject]:
    return list(run_events(item)) if isinstance(item, ChunkRun) else [item]


def _request_payload(events: list[JsonObject]) -> bytes:
    request = AppendRequest(
        "session-1",
        "writer-1",
        epoch=1,
        append_seq=200,
        attempt=1,
        role="owner",
        items=tuple(events),
        open=Open({"version": 0, "id": "s"}),
        expect=Expectation(next_seq=7),
    )
    return CODEC.encode_request(request)


VALID = [_request_payload([event]) for event in CORE_EVENTS] + [
    _request_payload(recorded_events(path)) for path in RECORDINGS[:8]
]


@st.composite
def hostile_payloads(draw: st.DrawFn) -> bytes:
    """Damage a valid payload: bytes changed, inserted, dropped, cut off, or added."""
    payload = bytearray(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(payload)))
        damage = draw(st.binary(max_size=10))
        replaced = draw(st.integers(0, 10))
        payload[at : at + replaced] = damage
    return bytes(payload)


@settings(max_examples=1_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(hostile_payloads() | st.binary(max_size=60).map(lambda tail: b"\0\0\0\0\1" + tail))
@example(b"")
@example(b"\0\0\0\0\1")
def test_hostile_bytes_are_refused_or_read_and_written_again(payload: bytes) -> None:
    try:
        decoded = CODEC.decode_request(payload)
    except DecodeError:
        return
    again = CODEC.decode_request(CODEC.encode_request(decoded.request)).request
    assert js_dumps(_plain(again)) == js_dumps(_plain(decoded.request))
    assert decoded.events is not None
    spliced = CODEC.encode_batch(batch_of(decoded.request.items), decoded.events)
    assert CODEC.decode_batch(spliced).items == decoded.request.items


def _plain(request: AppendRequest) -> JsonValue:
    events = [list(_unpacked(item)) for item in request.items]
    head: list[JsonValue] = [request.session_id, request.writer_id, request.epoch, request.attempt]
    flat: list[JsonValue] = [event for group in events for event in group]
    return loads(dumps([*head, request.append_seq, request.role, *flat]))
