from __future__ import annotations

import json
from typing import TYPE_CHECKING

from surfacelog.processors.summarizers.extraction import extract
from surfacelog.processors.summarizers.extractive import ExtractiveSummarizer, summary_text
from surfacelog.processors.summarizers.protocol import SummaryRequest
from surfacelog.projections.checkpoint import checkpoint_message
from surfacelog.projections.compaction_plan import EMPTY_CHECKPOINT_TOKENS
from surfacelog.projections.span_facts import SpanFacts, Todo, span_facts
from surfacelog.projections.summary_sections import SECTIONS, missing_sections, parse, render
from surfacelog.projections.tokens import message_price

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue


def text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def said(kind: str, text: str, **source: JsonValue) -> JsonObject:
    role = "assistant" if kind == "model" else "user"
    return {
        "id": "m",
        "role": role,
        "content": [text_block(text)],
        "source": {"kind": kind, **source},
    }


def called(call_id: str, name: str, **arguments: JsonValue) -> JsonObject:
    block: JsonObject = {
        "type": "tool-call",
        "id": call_id,
        "name": name,
        "arguments": json.dumps(arguments),
    }
    return {"id": "m", "role": "assistant", "content": [block], "source": {"kind": "model"}}


def answered(call_id: str, text: str, *, error: bool = False) -> JsonObject:
    block: JsonObject = {
        "type": "tool-result",
        "toolCallId": call_id,
        "content": [text_block(text)],
        "isError": error,
    }
    source: JsonObject = {"kind": "tool", "callId": call_id}
    return {"id": "m", "role": "user", "content": [block], "source": source}


def request(
    *messages: JsonObject, facts: SpanFacts | None = None, tokens: int = 4000
) -> SummaryRequest:
    return SummaryRequest("s", None, messages, facts or SpanFacts(), tokens, 8192)


def test_every_section_is_filled_from_the_events() -> None:
    facts = SpanFacts(
        todos=(
            Todo("write it", "completed"),
            Todo("test it", "in_progress"),
            Todo("ship", "pending"),
        ),
        error_codes={"c2": "EXIT_1"},
        failures=("model overloaded",),
        turn=3,
        step=2,
    )

    items = extract(
        request(
            said("user", "Make the parser iterative.\nKeep the API."),
            said("agent-instructions", "Never push to main."),
            called("c1", "read", path="src/parser.py"),
            answered("c1", "def parse(): ..."),
            called("c2", "bash", command="pytest -q", description="run"),
            answered("c2", "1 failed", error=True),
            said("model", "The loop drops the last token."),
            facts=facts,
        )
    )

    assert items == {
        "Primary request and intent": ["Make the parser iterative.\nKeep the API."],
        "Key technical concepts": ["tool read", "tool bash"],
        "Files and code": ["read: src/parser.py", "bash: pytest -q"],
        "Errors and fixes": ["bash failed (EXIT_1): 1 failed", "turn failed: model overloaded"],
        "Pending jobs": ["[in_progress] test it", "[pending] ship"],
        "Current work": ["The loop drops the last token.", "turn 3, step 2 is open"],
        "Next step": ["test it"],
        "Critical context": ["[agent-instructions] Never push to main."],
    }


async def test_an_earlier_checkpoint_is_merged_and_its_state_superseded() -> None:
    before = render(
        {
            "Primary request and intent": ["first request"],
            "Files and code": ["read: a.py", "read: b.py"],
            "Pending jobs": ["[pending] old"],
            "Errors and fixes": ["old error"],
        }
    )
    summary = await ExtractiveSummarizer().summarize(
        request(
            checkpoint_message("c", [text_block(before)], message_id="m"),
            said("user", "second request"),
            called("c1", "read", path="a.py"),
            facts=SpanFacts(todos=(Todo("new", "pending"),)),
        )
    )

    (block,) = summary.blocks
    text = str(block["text"])
    assert "<compacted-summary>" not in text
    assert missing_sections(text) == ()
    found = parse(text)
    assert found["Primary request and intent"] == ["first request", "second request"]
    assert found["Files and code"] == ["read: b.py", "read: a.py"]
    assert found["Pending jobs"] == ["[pending] new"]
    assert found["Errors and fixes"] == ["old error"]


def test_what_a_budget_cannot_hold_is_cut_newest_request_last() -> None:
    items = extract(request(*(said("user", f"request {n} " + "x" * 400) for n in range(40))))

    limit = EMPTY_CHECKPOINT_TOKENS + 1000
    text = summary_text(items, limit)

    price = message_price(checkpoint_message("c", [text_block(text)], message_id="m"))
    assert price <= limit
    kept = [int(item.split()[1]) for item in parse(text)["Primary request and intent"]]
    assert kept[0] == 0
    assert kept[-1] == 39
    assert kept == sorted(kept)


def test_a_long_item_keeps_its_beginning_and_its_end() -> None:
    items = extract(request(said("user", "begin " + "\U0001f642\n" * 4000 + " end")))

    (kept,) = parse(summary_text(items, EMPTY_CHECKPOINT_TOKENS + 500))[
        "Primary request and intent"
    ]

    assert kept.startswith("begin")
    assert kept.endswith("end")
    assert "[... cut ...]" in kept


def test_nothing_to_say_still_names_every_section() -> None:
    text = summary_text({}, 0)

    assert missing_sections(text) == ()
    assert text.count("(none)") == len(SECTIONS)


def test_facts_are_folded_from_the_events_of_the_span() -> None:
    result: JsonObject = {"message": answered("c1", "x"), "error": {"name": "E", "code": "EX"}}
    events: list[JsonObject] = [
        {"type": "turn/start", "data": {"turn": 1}},
        {"type": "step/start", "data": {"turn": 1, "step": 1}},
        {"type": "todo/write", "data": {"todos": [{"content": "a", "status": "completed"}]}},
        {"type": "tool/result", "data": result},
        {"type": "step/end", "data": {"turn": 1, "step": 1}},
        {
            "type": "turn/end",
            "data": {"turn": 1, "reason": {"kind": "error", "error": {"message": "boom"}}},
        },
        {"type": "turn/start", "data": {"turn": 2}},
    ]

    assert span_facts(events) == SpanFacts(
        todos=(Todo("a", "completed"),),
        error_codes={"c1": "EX"},
        failures=("boom",),
        turn=2,
        step=None,
    )
