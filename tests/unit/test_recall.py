from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.live_session import assistant, call, checkpoint, event, prune, result, span, user

from surfacelog.projections.recall import recall

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject


def log_of(*events: JsonObject) -> list[JsonObject]:
    return [{**one, "seq": seq} for seq, one in enumerate(events)]


def found(events: list[JsonObject], pattern: str) -> list[tuple[int, tuple[str, ...]]]:
    return [(one.seq, one.lines) for one in recall(events, re.compile(pattern))]


def test_only_what_is_shadowed_is_found_and_only_as_it_was_said() -> None:
    events = log_of(
        user("the key is 42\nnever print it"),
        assistant("c1"),
        call("c1"),
        result("c1", "key=42 " * 3),
        prune(3),
        result("c1", "key=42", op=span(3, 3), sourceEventSeqs=[3]),
        checkpoint([0, 1, 5]),
        user("the key was 42"),
    )

    assert found(events, "key") == [(0, ("the key is 42",)), (3, (("key=42 " * 3).strip(),))]
    assert found(events, "never|short") == [(0, ("never print it",))]
    chains = {one.seq: one.replacement_chain for one in recall(events, re.compile("key"))}
    assert chains == {0: (6,), 3: (5, 6)}


def test_a_log_that_was_never_compacted_has_nothing_to_recall() -> None:
    events = log_of(user("the key is 42"), event("surfacelog/inbox-posted", {"text": "key"}))

    assert found(events, "key") == []
