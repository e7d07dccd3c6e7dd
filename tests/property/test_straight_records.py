"""The short ways of the hottest records lead where the long ones do."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from tests.codec_cases import batch_of, read_by_fastavro

from surfacelog.schemas.codec import Codec, DecodedRequest, DecodeError, offline_codec
from surfacelog.schemas.event_types import ROLES
from surfacelog.schemas.packed_run import PackedTexts
from surfacelog.schemas.record_head import HeadFormat
from surfacelog.schemas.records import (
    AppendRequest,
    ChunkRun,
    EventBatch,
    Expectation,
    Item,
    Receipt,
)

longs = st.one_of(st.integers(-70, 70), st.integers(-(2**63), 2**63 - 1))
counts = st.integers(0, 2**40)
texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=90),
    st.text(st.characters(codec="ascii"), max_size=12),
)
ids = st.from_regex(r"[A-Za-z0-9._:-]{1,128}", fullmatch=True)


@st.composite
def runs(draw: st.DrawFn) -> ChunkRun:
    deltas = draw(st.lists(texts, min_size=1, max_size=12))
    dt = draw(st.lists(longs, min_size=len(deltas) - 1, max_size=len(deltas) - 1))
    kind = draw(st.sampled_from(["text", "reasoning", "tool-call"]))
    call_id = draw(texts) if kind == "tool-call" else None
    name = draw(st.one_of(st.none(), texts)) if call_id is not None else None
    place = (draw(longs), draw(longs), draw(longs), draw(longs))
    return ChunkRun(*place, kind, tuple(dt), tuple(deltas), call_id, name)  # type: ignore[arg-type]  # sampled


@st.composite
def requests(draw: st.DrawFn) -> AppendRequest:
    return AppendRequest(
        draw(ids),
        draw(ids),
        draw(longs),
        draw(longs),
        draw(longs),
        draw(st.sampled_from(ROLES)),
        tuple(draw(st.lists(runs(), min_size=1, max_size=2))),
        None,
        draw(st.sampled_from([None, Expectation(next_seq=3)])),
    )


def general() -> Codec:
    """Return a codec that knows no straight way: fastavro reads and writes its heads."""
    codec = offline_codec()
    codec._straight.clear()
    codec._reads_straight = False
    return codec


STRAIGHT, GENERAL = offline_codec(), general()


def decoded(codec: Codec, payload: bytes) -> DecodedRequest | str:
    try:
        return codec.decode_request(payload)
    except DecodeError as error:
        return error.message


@given(requests())
def test_requests_decode_alike(request: AppendRequest) -> None:
    payload = GENERAL.encode_request(request)
    assert decoded(STRAIGHT, payload) == decoded(GENERAL, payload)


@given(st.lists(runs(), min_size=1, max_size=3))
def test_runs_are_read_as_fastavro_reads_them(items: list[ChunkRun]) -> None:
    payload = STRAIGHT.encode_batch(batch_of(items))
    decoded_items = STRAIGHT.decode_batch(payload).items
    columns = [columns for _, columns in read_by_fastavro(payload)["events"]]
    assert [ChunkRun(**each) for each in columns] == [with_lists(each) for each in decoded_items]


def with_lists(item: Item) -> ChunkRun:
    assert isinstance(item, ChunkRun)
    assert len(item) == len(list(item.deltas))
    return replace(item, dt=list(item.dt), deltas=list(item.deltas))


@given(requests(), st.data())
def test_damaged_requests_are_refused_alike(request: AppendRequest, data: st.DataObject) -> None:
    payload = bytearray(GENERAL.encode_request(request))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(5, len(payload) - 1))
        payload[place] = data.draw(st.integers(0, 255))
    payload = payload[: data.draw(st.integers(5, len(payload)))] + data.draw(st.binary(max_size=2))
    assert decoded(STRAIGHT, bytes(payload)) == decoded(GENERAL, bytes(payload))


def test_a_run_goes_the_straight_way() -> None:
    run = ChunkRun(1, 1, 1, 0, "text", (20,) * 29, (" token",) * 30)
    payload = GENERAL.encode_request(AppendRequest("s", "w", 1, 3, 0, "owner", (run,)))
    with patch.object(HeadFormat, "read", side_effect=AssertionError("the general way")):
        (item,) = STRAIGHT.decode_request(payload).request.items
    assert isinstance(item, ChunkRun)
    assert isinstance(item.deltas, PackedTexts)
    assert item == run


@given(
    st.builds(
        EventBatch,
        ids,
        longs,
        ids,
        longs,
        st.sampled_from(ROLES),
        longs,
        longs,
        st.binary(min_size=8, max_size=8),
        st.binary(min_size=16, max_size=16),
        st.just(()),
    )
)
def test_heads_of_batches_are_the_same_bytes(batch: EventBatch) -> None:
    assert STRAIGHT.encode_batch(batch, b"\0") == GENERAL.encode_batch(batch, b"\0")


optional = st.one_of(st.none(), counts)


@given(
    st.builds(
        Receipt,
        ids,
        ids,
        longs,
        longs,
        st.sampled_from(["committed", "duplicate", "refused"]),
        optional,
        optional,
        optional,
        st.one_of(st.none(), st.just("order")),
        optional,
        st.one_of(st.none(), texts),
    )
)
def test_receipts_are_the_same_bytes(receipt: Receipt) -> None:
    assert STRAIGHT.encode_receipt(receipt) == GENERAL.encode_receipt(receipt)
