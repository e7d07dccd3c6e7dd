"""The heads that a sequencer reads and writes for every append, in straight lines.

fastavro handles every other head (`record_head`); its calls cost more than these three do, for
every append. They are for our own schemas only, and a property test holds each against fastavro's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from surfacelog.schemas.avro_binary import read_long, read_text
from surfacelog.schemas.records import AppendRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from surfacelog.schemas.event_types import Role
    from surfacelog.schemas.records import EventBatch, Receipt

_LONG_LIMIT: Final = 1 << 63
_ONE_BYTE: Final = tuple(bytes((code,)) for code in range(128))
_NULL: Final = b"\0"
_PRESENT: Final = b"\2"


class RequestHead(NamedTuple):
    """A request without its items; where its attempt begins and ends, and its events begin."""

    request: AppendRequest
    attempt_at: int
    attempt_end: int
    events_at: int


def read_request_head(payload: bytes, at: int) -> RequestHead | None:
    """Read the head of a request without open and expectation.

    None for any other payload, well-formed or not: the general way decides, and words the error.
    """
    try:
        session_id, at = read_text(payload, at)
        writer_id, at = read_text(payload, at)
        epoch, at = read_long(payload, at)
        append_seq, attempt_at = read_long(payload, at)
        attempt, attempt_end = read_long(payload, attempt_at)
        role, at = read_text(payload, attempt_end)
        if payload[at] or payload[at + 1]:
            return None
    except (ValueError, IndexError):
        return None
    # Admission checks the role.
    request = AppendRequest(session_id, writer_id, epoch, append_seq, attempt, cast("Role", role))
    return RequestHead(request, attempt_at, attempt_end, at + 2)


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


STRAIGHT_WRITERS: Final[dict[str, Callable[[Any], bytes | None]]] = {
    "EventBatch": batch_head,
    "Receipt": receipt_body,
}
"""By the name of the record; None says that this one needs the general way."""
