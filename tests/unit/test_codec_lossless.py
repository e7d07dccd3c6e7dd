from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.codec_cases import (
    RECORDINGS,
    batch_of,
    read_by_fastavro,
    recorded_events,
    spelled,
    through_avro,
    vector_events,
    write_by_fastavro,
)

from surfacelog.schemas.citations import resolve_citations
from surfacelog.schemas.codec import offline_codec, pack_items
from surfacelog.schemas.event_types import CORE_TYPES
from surfacelog.schemas.json_text import replace_lone_surrogates
from surfacelog.schemas.records import ChunkRun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from surfacelog.schemas.json_value import JsonObject


def test_all_recordings_are_there() -> None:
    assert len(RECORDINGS) == 48


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_recording_survives_with_order_and_number_types(path: Path) -> None:
    events = recorded_events(path)
    assert spelled(through_avro(offline_codec(), events)) == spelled(events)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_core_events_of_a_recording_are_typed_and_in_their_usual_order(path: Path) -> None:
    payload = offline_codec().encode_batch(batch_of(recorded_events(path)))
    record = read_by_fastavro(payload)
    for name, event in record["events"]:
        if name.endswith("SessionEvent") and event["type"] in CORE_TYPES:
            assert not event["data"][0].endswith(("Extension", "Malformed")), event
            assert not list(_with_member(event, "order")), event
    assert write_by_fastavro(record) == payload[5:]


def test_recorded_blocks_are_typed() -> None:
    for path in RECORDINGS:
        payload = offline_codec().encode_batch(batch_of(recorded_events(path)))
        assert "ExtensionBlock" not in str(read_by_fastavro(payload))


def test_recordings_take_less_room_than_packed_json_lines() -> None:
    sizes, events = [0, 0], 0
    for path in RECORDINGS:
        recorded = recorded_events(path)
        head = len(offline_codec().encode_batch(batch_of([])))
        sizes[0] += len(offline_codec().encode_batch(batch_of(recorded))) - head
        sizes[1] += len(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
        events += len(recorded)
    assert events == 7_325
    assert sizes[0] / events < 75, f"{sizes[0] / events:.0f} bytes an event"
    assert sizes[0] < 0.75 * sizes[1], f"{sizes[0]} bytes against {sizes[1]} as packed JSON lines"


def test_every_lossless_event_of_the_reference_cases_survives() -> None:
    codec = offline_codec()
    count = 0
    for batch in _in_batches(vector_events(), 500):
        clean = [_clean(event) for event in batch]
        assert spelled(through_avro(codec, batch)) == spelled(
            _numbered(resolve_citations(event, 0), seq) for seq, event in enumerate(clean)
        )
        count += len(batch)
    assert count == 61_217
    assert codec.replaced == 446


def _in_batches(events: Iterator[JsonObject], size: int) -> Iterator[list[JsonObject]]:
    batch: list[JsonObject] = []
    for event in events:
        batch.append({key: value for key, value in event.items() if key != "seq"})
        if len(batch) == size:
            yield batch
            batch = []
    yield batch


def _numbered(event: JsonObject, seq: int) -> JsonObject:
    numbered: JsonObject = {}
    for key, value in event.items():
        numbered[key] = value
        if key == "type":
            numbered["seq"] = seq
    return numbered


def _clean(event: JsonObject) -> JsonObject:
    clean, _ = replace_lone_surrogates(event)
    assert isinstance(clean, dict)
    return clean


def _with_member(value: Any, name: str) -> Iterator[Any]:
    """Yield every value of a member, at any depth, that is not null."""
    if isinstance(value, dict):
        if value.get(name) is not None:
            yield value[name]
        for child in value.values():
            yield from _with_member(child, name)
    elif isinstance(value, list | tuple):
        for child in value:
            yield from _with_member(child, name)


def test_neighbouring_deltas_become_runs_and_come_back() -> None:
    packed = [item for path in RECORDINGS for item in pack_items(recorded_events(path))]
    runs = [item for item in packed if isinstance(item, ChunkRun)]
    assert {run.kind for run in runs} == {"text", "reasoning", "tool-call"}
    assert max(map(len, runs)) > 30
