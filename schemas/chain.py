"""The chained digest that makes a session's log tamper-evident (DESIGN 3).

Each batch carries a BLAKE2b of the chain before it and of everything that the batch says. Whoever
keeps the last chain of a session elsewhere can tell later that nothing before it was changed.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.json_text import dumps

if TYPE_CHECKING:
    from surfacelog.schemas.records import EventBatch, Opened

CHAIN_BYTES: Final = 16
GENESIS: Final = b""
"""The chain before a session's first batch."""

_NUMBERS: Final = Struct(">10q")


def chain(previous: bytes, batch: EventBatch, events: bytes) -> bytes:
    """Return the chain after a batch whose events travel as the given bytes.

    `chain` and `request_digest` of the batch itself are not covered.
    """
    session, writer = batch.session_id.encode(), batch.writer_id.encode()
    role, opened = batch.role.encode(), _opened(batch.opened)
    # The lengths keep the end of one part from passing for the start of the next.
    numbers = _NUMBERS.pack(
        len(previous),
        len(session),
        len(writer),
        len(role),
        len(opened),
        len(events),
        batch.first_seq,
        batch.append_seq,
        batch.epoch,
        batch.admitted_at,
    )
    covered = b"".join((numbers, previous, session, writer, role, opened, events))
    return blake2b(covered, digest_size=CHAIN_BYTES).digest()


def _opened(opened: Opened | None) -> bytes:
    if opened is None:
        return b""
    return dumps([opened.header, opened.epoch, opened.loading]).encode()
