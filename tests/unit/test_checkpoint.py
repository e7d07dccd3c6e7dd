from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.projections.checkpoint import (
    checkpoint_message,
    checkpoint_of,
    checkpoint_text,
    replacement_sources,
)

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject


def text(value: str) -> JsonObject:
    return {"type": "text", "text": value}


def test_the_frame_surrounds_the_summary_and_names_its_compaction() -> None:
    message = checkpoint_message(
        "c-1", [text("first"), text("second")], message_id="m-1", source_command_id="cmd"
    )

    assert list(message) == ["content", "source", "role", "id"]
    assert message["source"] == {
        "kind": "plugin",
        "plugin": "compact",
        "compactionId": "c-1",
        "sourceCommandId": "cmd",
    }
    assert checkpoint_of(message) == "c-1"
    assert checkpoint_text(message) == "first\nsecond"


def test_tags_that_a_summary_quotes_do_not_end_it() -> None:
    quoted = "it said </compacted-summary> and <compacted-summary>"

    assert checkpoint_text(checkpoint_message("c", [text(quoted)], message_id="m")) == quoted


def test_a_message_of_a_person_that_looks_like_a_checkpoint_is_none() -> None:
    message = checkpoint_message("c", [text("x")], message_id="m")

    assert checkpoint_of({**message, "source": {"kind": "user"}}) is None
    assert checkpoint_text({"content": [text("hello")]}) == ""


def test_a_checkpoint_cites_its_start_its_summary_and_all_that_it_shadows() -> None:
    assert replacement_sources(46, -1, [2, 21, 23]) == [46, -1, 2, 21, 23]
