"""The chained digest that makes a session's log tamper-evident (DESIGN 3).

Each batch carries a BLAKE2b of the chain before it and of everything that the batch says. Whoever
keeps the last chain of a session elsewhere can tell later that nothing before it was changed.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.json_text import dumps

if TYPE_CHECKING:
    from surfacelog.schemas.records import EventBatch, Opened

CHAIN_BYTES: Final = 16
GENESIS: Final = b""
"""The chain before a session's first batch."""


def chain(previous: bytes, batch: EventBatch, events: bytes) -> bytes:
    """Return the chain after a batch whose events travel as the given bytes.

    `chain` and `request_digest` of the batch itself are not covered.
    """
    digest = blake2b(digest_size=CHAIN_BYTES)
    parts = (
        previous,
        batch.session_id.encode(),
        _number(batch.first_seq),
        batch.writer_id.encode(),
        _number(batch.append_seq),
        batch.role.encode(),
        _number(batch.epoch),
        _number(batch.admitted_at),
        _opened(batch.opened),
        events,
    )
    for part in parts:
        # The length keeps the end of one part from passing for the start of the next.
        digest.update(_number(len(part)) + part)
    return digest.digest()


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def _opened(opened: Opened | None) -> bytes:
    if opened is None:
        return b""
    return dumps([opened.header, opened.epoch, opened.loading]).encode()
