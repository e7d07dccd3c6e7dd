"""The reference's logs through admission: imported, then opened by a next owner."""

from __future__ import annotations

from pathlib import Path

from surfacelog.schemas.chunk_runs import pack_items
from surfacelog.schemas.event_types import KNOWN_TYPES
from surfacelog.schemas.records import Open
from tests.live_session import HEADER, LiveSession, admitted
from tests.vectors.agreement import difference, without_fixed_texts
from tests.vectors.cases import Case, read_cases

FILE = Path(__file__).parents[1] / "data" / "vectors" / "reference-1.jsonl.xz"


def may_seed(case: Case) -> bool:
    if "error" in case.answer.get("seed", {"error": "not asked"}):
        return False
    return all(event["type"] in KNOWN_TYPES or event.get("ignorable") for event in case.events)


def test_a_log_that_may_seed_a_session_is_imported_and_closed_as_the_reference_closes_it() -> None:
    imported = closed = 0
    for case in read_cases(FILE):
        if not may_seed(case):
            continue
        session = LiveSession()
        request = session.request("imp", "importer", *pack_items(case.events), open=Open(HEADER))
        admitted(session.send(request))
        before = session.events()
        session.open()
        expected = [{k: v for k, v in e.items() if k != "seq"} for e in case.answer["closers"]]
        found = [
            {k: v for k, v in e.items() if k != "seq"}
            for e in session.events()[len(before) :]
            if e["type"] != "session/end-seed"
        ]
        differs = difference(without_fixed_texts(expected), without_fixed_texts(found))
        assert differs is None, (case.name, differs)
        imported += 1
        closed += bool(found)
    assert imported > 500
    assert closed > 100
