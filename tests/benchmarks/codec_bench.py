"""Microseconds that the codec takes: run it with `python -m tests.benchmarks.codec_bench`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from timeit import repeat
from typing import TYPE_CHECKING

from surfacelog.schemas.chain import GENESIS, chain
from surfacelog.schemas.codec import Codec, offline_codec
from surfacelog.schemas.records import AppendRequest, ChunkRun, EventBatch, Item

if TYPE_CHECKING:
    from collections.abc import Callable

RUN = ChunkRun(
    time=1_700_000_000_000,
    turn=3,
    step=2,
    index=0,
    kind="text",
    dt=(12,) * 29,
    deltas=tuple(f" token{place}" for place in range(30)),
)
MESSAGE: Item = {
    "type": "user/message",
    "time": 1_700_000_000_000,
    "data": {
        "content": [{"type": "text", "text": "a line of some length, as people write them. " * 45}],
        "source": {"kind": "user"},
        "role": "user",
        "id": "0c6d7f0e-7d52-4e2b-8a53-f0a2b5a6c7d8",
    },
    "surfaceOp": "append",
}


@dataclass(frozen=True, slots=True)
class CodecTimes:
    """Microseconds for one append of one item, the best of many rounds, and its size."""

    name: str
    request_bytes: int
    encode_request: float
    decode_request: float
    splice: float
    decode_batch: float


def measure(name: str, item: Item) -> CodecTimes:
    """Measure each step that an append of one item takes on its way."""
    codec = offline_codec()
    request = AppendRequest("session-1", "writer-1", 1, 7, 1, "owner", (item,))
    payload = codec.encode_request(request)
    batch = codec.encode_batch(_batch(request, b"\0" * 16))
    return CodecTimes(
        name=name,
        request_bytes=len(payload),
        encode_request=_best(lambda: codec.encode_request(request)),
        decode_request=_best(lambda: codec.decode_request(payload)),
        splice=_best(lambda: _pass_on(codec, payload)),
        decode_batch=_best(lambda: codec.decode_batch(batch)),
    )


def _pass_on(codec: Codec, payload: bytes) -> bytes:
    """Do what a sequencer does: decode with all checks, chain, encode with the same bytes."""
    decoded = codec.decode_request(payload)
    assert decoded.events is not None  # written with our own schema
    batch = _batch(decoded.request, GENESIS)
    chained = replace(batch, chain=chain(GENESIS, batch, decoded.events))
    return codec.encode_batch(chained, decoded.events)


def _batch(request: AppendRequest, head: bytes) -> EventBatch:
    return EventBatch(
        session_id=request.session_id,
        first_seq=4_711,
        writer_id=request.writer_id,
        append_seq=request.append_seq,
        role=request.role,
        epoch=request.epoch,
        admitted_at=1_700_000_000_123,
        request_digest=b"\0" * 8,
        chain=head,
        items=request.items,
    )


def _best(call: Callable[[], object], number: int = 20, rounds: int = 400) -> float:
    return min(repeat(call, number=number, repeat=rounds)) / number * 1e6


def main() -> None:
    """Print a line for a run of 30 chunks and one for a message of 2 kB."""
    for times in (measure("30-chunk run", RUN), measure("2 kB message", MESSAGE)):
        sys.stdout.write(
            f"{times.name}: {times.request_bytes} bytes; "
            f"encode {times.encode_request:.1f} us, decode {times.decode_request:.1f} us, "
            f"decode + chain + splice {times.splice:.1f} us, "
            f"decode batch {times.decode_batch:.1f} us\n"
        )


if __name__ == "__main__":
    main()
