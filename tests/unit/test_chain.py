from __future__ import annotations

from dataclasses import replace

from tests.codec_cases import batch_of

from surfacelog.schemas.chain import CHAIN_BYTES, GENESIS, chain
from surfacelog.schemas.records import EventBatch, Opened

EVENTS = b"\2\0events\0"
BATCH = replace(batch_of([]), opened=Opened({"id": "x"}, 1, False))


def test_every_covered_field_changes_the_chain() -> None:
    changed: list[EventBatch] = [
        BATCH,
        replace(BATCH, session_id="session-2"),
        replace(BATCH, first_seq=1),
        replace(BATCH, writer_id="writer-2"),
        replace(BATCH, append_seq=4),
        replace(BATCH, role="importer"),
        replace(BATCH, epoch=3),
        replace(BATCH, admitted_at=0),
        replace(BATCH, opened=None),
        replace(BATCH, opened=Opened({"id": "y"}, 1, False)),
        replace(BATCH, opened=Opened({"id": "x"}, 1, True)),
        replace(BATCH, session_id="session-", writer_id="1writer-1"),
    ]
    heads = [chain(GENESIS, batch, EVENTS) for batch in changed]
    heads += [chain(heads[0], BATCH, EVENTS), chain(GENESIS, BATCH, EVENTS + b"\0")]
    assert len(set(heads)) == len(heads)
    assert {len(head) for head in heads} == {CHAIN_BYTES}


def test_the_chain_is_fixed_for_good() -> None:
    assert chain(GENESIS, BATCH, EVENTS).hex() == "93fe94ceccaf6018f98d2063511fb1f1"
    assert chain(GENESIS, replace(BATCH, chain=b"other"), EVENTS) == chain(GENESIS, BATCH, EVENTS)
