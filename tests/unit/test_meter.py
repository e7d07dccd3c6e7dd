"""Prices, streams and the meter, by example (SEMANTICS 1, 4)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.logs import Log, call_block, replace, text_block

from surfacelog.projections.assembly import BlockAssembler
from surfacelog.projections.fold import LogFold, fold_log
from surfacelog.projections.meter import Meter, MeterError
from surfacelog.projections.request_header import canonical_header, last_header, same_header
from surfacelog.projections.tokens import (
    header_price,
    is_priceable,
    message_price,
    text_price,
)
from surfacelog.schemas.errors import CorruptLogError


@pytest.mark.parametrize(
    ("text", "price"),
    [
        ("", 0),
        ("abcd", 1),
        ("abcde", 2),
        ("日本語文字", 2),
        ("🙂🙂", 1),
        ("🙂🙂🙂", 2),
        ("\ud800", 1),
    ],
)
def test_text_is_priced_by_utf16_code_units(text: str, price: int) -> None:
    assert text_price(text) == price


def test_a_message_is_priced_by_its_blocks() -> None:
    blocks = [
        text_block("abcd"),  # 1 + 4
        {"type": "tool-call", "id": "ignored", "name": "bash", "arguments": "{}"},  # 1 + 1 + 4
        {"type": "tool-result", "content": [text_block("abcde")]},  # 2 + 4 + 4
        {"type": "image"},  # its JSON has 16 characters: 4 + 4
    ]
    assert message_price({"content": blocks}) == 5 + 6 + 10 + 8 + 4
    assert message_price(None) == 0


def test_a_malformed_block_has_a_price_but_cannot_be_measured() -> None:
    assert message_price({"content": [{"type": "text"}]}) == 4 + 4 + 4
    assert not is_priceable([{"type": "text"}])
    assert not is_priceable([None])
    assert is_priceable([{"type": "unheard-of"}, text_block("x")])


def test_nested_results_of_any_depth_are_priced() -> None:
    block: Any = text_block("abcd")
    for _ in range(30_000):
        block = {"type": "tool-result", "content": [block]}
    assert message_price({"content": [block]}) == 30_000 * 4 + 5 + 4


def test_a_header_costs_its_system_prompt_and_tools() -> None:
    header = canonical_header({"config": {}, "system": "abcd", "tools": [{"a": 1.0}]})
    assert header_price(header) == 5 + 7  # [{"a":1}] has 9 characters
    assert header_price(canonical_header({"config": {}, "system": "", "tools": []})) == 0


def test_headers_are_equal_by_what_they_ask_for() -> None:
    base: Any = {
        "config": {"provider": "p", "model": "m"},
        "tools": [{"name": "a", "parameters": {}}],
    }
    same: Any = {
        "tools": [{"name": "a", "parameters": {}}],
        "config": {"model": "m", "provider": "p"},
    }
    assert same_header(canonical_header(base), canonical_header({**same, "system": ""}))
    reordered = {**base, "tools": [{"parameters": {}, "name": "a"}]}
    assert not same_header(canonical_header(base), canonical_header(reordered))
    assert not same_header(canonical_header(base), None)
    nulled = {**base, "config": {**base["config"], "stop": None}}
    assert not same_header(canonical_header(base), canonical_header(nulled))


def answered(usage: Any = None, *, cite: bool = True) -> Log:
    """One turn whose answer streamed in two chunks."""
    log = Log()
    log.start()
    log.user("x" * 400)  # 104 + 4 tokens
    log.header(system="y" * 400)  # 104 tokens
    chunks = [
        log.chunk({"type": "text-delta", "index": 0, "text": "abcd"}),
        log.chunk({"type": "text-delta", "index": 0, "text": "efgh"}),
    ]
    more: Any = {"sourceEventSeqs": chunks} if cite else {}
    log.assistant(text_block("abcd"), usage=usage, **more)
    return log


def test_without_usage_everything_is_estimated() -> None:
    measured = fold_log(answered().events).measurement
    assert measured is not None
    assert (measured.kind, measured.baseline) == ("estimated", 104 + 9)
    # The user message came after step/start: it is a change since the anchor.
    assert (measured.surface_delta, measured.total) == (108, 104 + 9 + 108)


def test_a_message_before_its_step_is_part_of_the_anchor() -> None:
    log = Log()
    log.user("x" * 400)
    log.start()
    log.header(system="y" * 400)
    log.assistant(text_block("abcd"), usage={"inputTokens": 300, "outputTokens": 7})
    measured = fold_log(log.events).measurement
    assert measured is not None
    assert (measured.kind, measured.baseline, measured.surface_delta) == ("usage", 307, 0)
    log.result("c1", "abcd")
    after = fold_log(log.events).measurement
    assert after is not None
    assert (after.total, after.surface_delta) == (307 + 13, 13)


def test_usage_below_the_rule_of_thumb_is_not_believed() -> None:
    log = answered({"inputTokens": 1, "outputTokens": 1})
    measured = fold_log(log.events).measurement
    assert measured is not None
    assert measured.kind == "estimated"
    assert measured.baseline == 104 + 0 + (2 + 4 + 4)  # header, surface at the step, cited stream


def test_counts_beyond_any_number_are_no_measurement() -> None:
    log = answered({"inputTokens": 1e308, "outputTokens": 1, "cacheReadTokens": 1.5e308})
    folded = fold_log(log.events)
    assert folded.tokens()["total"] is None
    assert "counts" in str(folded.refusal)


def test_a_number_that_is_no_json_is_priced_as_javascript_prints_it() -> None:
    log = Log()
    log.start()
    log.user()
    log.events[-1]["data"]["content"] = [{"type": "video", "length": float("inf")}]
    log.header(tools=[{"limit": -float("inf")}])
    folded = fold_log(log.events)
    assert folded.prices == (4 + 4 + len('{"type":"video","length":null}') // 4 + 1,)
    assert folded.header_tokens == 4 + len('[{"limit":null}]') // 4


def test_another_header_ends_the_anchor() -> None:
    log = answered({"inputTokens": 5000, "outputTokens": 1})
    log.header(system="z")
    measured = fold_log(log.events).measurement
    assert measured is not None
    assert (measured.kind, measured.total) == ("estimated", 5 + measured.surface)


def test_citing_what_is_no_chunk_of_the_step_cannot_be_measured() -> None:
    log = answered({"inputTokens": 5000, "outputTokens": 1})
    log.events[-1]["sourceEventSeqs"] = [0]
    folded = fold_log(log.events)
    assert folded.measurement is None
    assert "seq 0" in str(folded.refusal)
    assert folded.tokens() == {
        "surface": 108 + 9, "header": 104, "total": None, "baseline": None,
        "reason": folded.refusal,
    }  # fmt: skip


@pytest.mark.parametrize("chunk", [None, 2, {"type": "novel"}, {"index": 0, "text": "x"}])
def test_citing_a_chunk_of_no_known_type_cannot_be_measured(chunk: Any) -> None:
    log = answered({"inputTokens": 5000, "outputTokens": 1})
    log.events[4]["data"]["chunk"] = chunk
    assert fold_log(log.events).measurement is None


@pytest.mark.parametrize("part", ["system", "tools"])
def test_a_header_with_null_for_a_part_is_no_header(part: str) -> None:
    log = answered({"inputTokens": 5000, "outputTokens": 1})
    log.events[3]["data"]["header"][part] = None
    folded = fold_log(log.events)
    assert folded.measurement is None
    assert folded.header is not None
    assert part not in folded.header
    with pytest.raises(CorruptLogError):
        last_header(log.events)


def test_a_header_keeps_texts_and_lists_and_whole_flags() -> None:
    header: Any = {"config": {}, "tools": {"a": 1}, "system": 5}
    assert canonical_header(header) == {"config": {}}
    kept: Any = {"adapterDefaults": {"maxTokens": True, "new": 1}, "tools": "{{tools}}"}
    assert canonical_header(kept) == kept
    assert canonical_header({"adapterDefaults": {"maxTokens": False}}) == {}


def test_tools_that_are_a_placeholder_cannot_be_compared() -> None:
    log = answered({"inputTokens": 5000, "outputTokens": 1})
    log.events[3]["data"]["header"]["tools"] = "{{tools}}"
    assert fold_log(log.events).measurement is None


def test_nothing_costs_nothing() -> None:
    measured = Meter().measure()
    assert (measured.kind, measured.total) == ("none", 0)


def test_the_state_of_a_meter_goes_through_json_in_the_middle_of_a_stream() -> None:
    log = answered({"inputTokens": 1, "outputTokens": 1})
    meter = Meter()
    for event in log.events:
        meter.apply(event)
        meter = Meter.from_json(meter.to_json())
    assert meter.measure() == fold_log(log.events).measurement


def test_a_refusal_stays_through_json() -> None:
    meter = Meter()
    meter.apply({"type": "step/end", "seq": 0, "data": {}})
    with pytest.raises(MeterError):
        Meter.from_json(meter.to_json()).measure()


def test_a_replacement_takes_the_price_of_what_it_shadows_off() -> None:
    log = Log()
    log.user("x" * 400)
    log.user("abcd", **replace(0, 0, [0]))
    fold = LogFold()
    for event in log.events:
        fold.apply(event)
    assert fold.result().surface_tokens == 9
    assert fold.result().measurement is not None


def push(*chunks: Any) -> BlockAssembler:
    assembler = BlockAssembler()
    for chunk in chunks:
        assembler.push(chunk)
    return assembler


def test_blocks_stand_in_the_order_of_first_sight() -> None:
    assembler = push(
        {"type": "text-delta", "index": 1, "text": "\ud83d"},
        {"type": "tool-call-delta", "index": 0, "id": "a", "argumentsDelta": "{"},
        {"type": "text-delta", "index": 1, "text": "\ude42"},
        {"type": "tool-call-delta", "index": 0, "id": "b", "name": "bash", "argumentsDelta": "}"},
        {"type": "tool-call-delta", "index": 0, "id": "b", "name": "", "argumentsDelta": ""},
    )
    assert assembler.blocks() == [
        text_block("🙂"),
        {"type": "tool-call", "id": "b", "name": "bash", "arguments": "{}"},
    ]
    assert assembler.finish == {"kind": "stop"}


def test_the_first_end_wins_and_closes_the_block() -> None:
    assembler = push(
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "block-end", "index": 0, "block": text_block("final")},
        {"type": "text-delta", "index": 0, "text": "late"},
        {"type": "block-end", "index": 0, "block": text_block("later")},
    )
    assert assembler.blocks() == [text_block("final")]


def test_a_block_is_what_the_deltas_of_its_own_kind_add_up_to() -> None:
    mixed = [
        {"type": "text-delta", "index": 0, "text": "a"},
        {"type": "tool-call-delta", "index": 0, "id": "c", "name": "x", "argumentsDelta": "{{{{{"},
        {"type": "reasoning-delta", "index": 0, "text": "b"},
        {"type": "tool-call-delta", "index": 1, "id": "c", "name": "x", "argumentsDelta": "{}"},
        {"type": "text-delta", "index": 1, "text": "long enough to cost something"},
    ]
    call = {"type": "tool-call", "id": "c", "name": "x", "arguments": "{}"}
    assert push(*mixed).blocks() == [text_block("ab"), call]
    log = Log()
    log.start()
    log.header()
    cited = [log.chunk(chunk) for chunk in mixed]
    log.assistant(usage={"inputTokens": 0, "outputTokens": 0}, sourceEventSeqs=cited)
    measured = fold_log(log.events).measurement
    assert measured is not None
    assert measured.baseline == 1 + 4 + 1 + 1 + 4 + 4


def test_an_unfinished_call_has_a_default_id_and_max_tokens_drops_it() -> None:
    chunks = [
        {"type": "block-start", "index": 2, "blockType": "tool-call"},
        {"type": "text-delta", "index": 0, "text": "a"},
    ]
    assert push(*chunks).blocks()[0] == {**call_block("call-2"), "name": "", "arguments": ""}
    cut = push(*chunks, {"type": "finish", "reason": {"kind": "max-tokens"}, "replayState": 1})
    assert cut.blocks() == [text_block("a")]
    assert cut.replay_state == 1


@pytest.mark.parametrize(
    "chunk", [{"type": "novel"}, {"type": "text-delta", "index": 0}, {"type": "block-end"}, None]
)
def test_a_chunk_of_no_known_type_is_refused(chunk: Any) -> None:
    with pytest.raises(CorruptLogError):
        push(chunk)


def test_an_unknown_block_that_was_never_closed_is_refused() -> None:
    with pytest.raises(CorruptLogError):
        push({"type": "block-start", "index": 0, "blockType": "image"}).blocks()
