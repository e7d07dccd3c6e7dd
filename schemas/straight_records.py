"""The records that a sequencer reads and writes for every append, without the schema's compilers.

The codec can read and write any record by walking its schema. Three shapes carry nearly the whole
traffic: the request that brings a chunk run, the head of a batch, and the receipt. They are
handled here in straight lines, in a third of the time, for our own schemas only; a property
test holds each of them against the codec's general way. Readers give None for whatever is not
exactly their shape, so that the general way decides, and words the errors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.avro_binary import read_long, read_longs, read_text, read_texts
from surfacelog.schemas.chunk_runs import check_run
from surfacelog.schemas.records import AppendRequest, ChunkRun

if TYPE_CHECKING:
    from surfacelog.schemas.records import EventBatch, Receipt

_LONG_LIMIT: Final = 1 << 63
_ONE_BYTE: Final = tuple(bytes((code,)) for code in range(128))
_NULL: Final = b"\0"
_PRESENT: Final = b"\2"
_ONE_CHUNK_RUN: Final = b"\2\2"
"""A block of one item, which is of the second branch of the union."""


def read_run_request(payload: bytes, at: int) -> tuple[AppendRequest, tuple[int, int, int]] | None:
    """Read an AppendRequest that brings one chunk run, without open or expectation.

    Returns it with three places: where the attempt begins and ends, and where the events begin.
    None for any other payload, well-formed or not.
    """
    try:
        session_id, at = read_text(payload, at)
        writer_id, at = read_text(payload, at)
        epoch, at = read_long(payload, at)
        append_seq, attempt_at = read_long(payload, at)
        attempt, at = read_long(payload, attempt_at)
        attempt_end = at
        role, at = read_text(payload, at)
        events_at = at + 2
        if payload[at : at + 4] != _NULL + _NULL + _ONE_CHUNK_RUN:
            return None
        run, at = _read_run(payload, at + 4)
        if payload[at:] != _NULL:
            return None
        check_run(run)
    except (ValueError, IndexError):
        return None
    items = (run,)
    request = AppendRequest(session_id, writer_id, epoch, append_seq, attempt, role, items)  # type: ignore[arg-type]  # admission checks the role
    return request, (attempt_at, attempt_end, events_at)


def _read_run(payload: bytes, at: int) -> tuple[ChunkRun, int]:
    time, at = read_long(payload, at)
    turn, at = read_long(payload, at)
    step, at = read_long(payload, at)
    index, at = read_long(payload, at)
    kind, at = read_text(payload, at)
    call_id, at = _read_optional_text(payload, at)
    name, at = _read_optional_text(payload, at)
    dt, at = read_longs(payload, at)
    deltas, at = _read_deltas(payload, at)
    return ChunkRun(time, turn, step, index, kind, tuple(dt), tuple(deltas), call_id, name), at  # type: ignore[arg-type]  # check_run checks the kind


def _read_optional_text(payload: bytes, at: int) -> tuple[str | None, int]:
    branch = payload[at]
    if branch == 0:
        return None, at + 1
    if branch != 2:
        raise ValueError("no such branch of a union")
    return read_text(payload, at + 1)


def _read_deltas(payload: bytes, at: int) -> tuple[list[str], int]:
    """Read an array of strings; one block of short ASCII texts, as most are, is sliced at once."""
    rest = payload[at:]
    count, place = read_long(rest, 0)
    if count <= 0 or not rest.isascii():
        return read_texts(payload, at)
    text = rest.decode("ascii")
    deltas: list[str] = []
    append = deltas.append
    for _ in range(count):
        code = rest[place]  # ASCII: a length of one byte
        if code & 1:
            raise ValueError("a negative length")
        place += 1
        end = place + (code >> 1)
        append(text[place:end])
        place = end
    if rest[place]:
        return read_texts(payload, at)  # another block follows
    return deltas, at + place + 1


def batch_head(batch: EventBatch) -> bytes | None:
    """Return an EventBatch up to its events; None for one that opens its session."""
    if batch.opened is not None:
        return None
    return b"".join(
        (
            _text(batch.session_id),
            _long(batch.first_seq),
            _text(batch.writer_id),
            _long(batch.append_seq),
            _text(batch.role),
            _long(batch.epoch),
            _long(batch.admitted_at),
            _ONE_BYTE[len(batch.request_digest) << 1],
            batch.request_digest,
            _ONE_BYTE[len(batch.chain) << 1],
            batch.chain,
            _NULL,
        )
    )


def receipt_body(receipt: Receipt) -> bytes:
    """Return a Receipt."""
    return b"".join(
        (
            _text(receipt.session_id),
            _text(receipt.writer_id),
            _long(receipt.append_seq),
            _long(receipt.attempt),
            _text(receipt.status),
            _optional_long(receipt.first_seq),
            _optional_long(receipt.last_seq),
            _optional_long(receipt.epoch),
            _NULL if receipt.code is None else _PRESENT + _text(receipt.code),
            _optional_long(receipt.event_index),
            _NULL if receipt.message is None else _PRESENT + _bytes_of(receipt.message),
        )
    )


def _optional_long(value: int | None) -> bytes:
    return _NULL if value is None else _PRESENT + _long(value)


@lru_cache(8192)
def _text(value: str) -> bytes:
    """Encode a text that comes again and again: an id, a role, a code."""
    return _bytes_of(value)


def _bytes_of(value: str) -> bytes:
    data = value.encode()
    return _long(len(data)) + data


@lru_cache(8192)
def _long(value: int) -> bytes:
    if not -_LONG_LIMIT <= value < _LONG_LIMIT:
        raise OverflowError("a number of more than 64 bits")
    code = (value << 1) ^ (value >> 63)
    if code < 128:
        return _ONE_BYTE[code]
    out = bytearray()
    while code > 127:
        out.append(code & 127 | 128)
        code >>= 7
    out.append(code)
    return bytes(out)
