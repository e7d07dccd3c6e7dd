"""Ranges, cuts, the pruner, the policy and region checks, by example (SEMANTICS 5, 6)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.unit.logs import Log, text_block

from surfacelog.projections.checkpoint import checkpoint_message
from surfacelog.projections.compaction_policy import (
    CompactionPolicy,
    PolicyError,
    budget,
    configured_policies,
    policies,
)
from surfacelog.projections.compaction_range import compactable_range
from surfacelog.projections.compaction_region import (
    CompactionBusyError,
    PricedSurface,
    RegionError,
    SummaryTooLargeError,
    SurfaceChangedError,
    check_idle,
    check_smaller,
    check_unchanged,
    check_whole_surface,
    select_region,
    summarizer_prefix,
)
from surfacelog.projections.pairing import balanced_cuts
from surfacelog.projections.pruner import (
    MARKER,
    PruneConfigError,
    PrunePolicy,
    prune_blocks,
    prune_policy,
    prune_results,
)
from surfacelog.projections.surface import fold_surface
from surfacelog.projections.tokens import message_price
from surfacelog.schemas.errors import CorruptLogError
from surfacelog.schemas.records import SeqRange
from surfacelog.schemas.settings import ModelPolicy, Settings

MODEL = {"provider": "p", "model": "m"}

# Nodes 10, 20, 30, 40: a user message, a call, its result, a user message.
SURFACE = PricedSurface((10, 20, 30, 40), (5, 6, 7, 8), (0, 1, -1, 0))


def chosen(retain: int, surface: PricedSurface = SURFACE) -> SeqRange | None:
    return compactable_range(surface.seqs, surface.prices, surface.deltas, retain)


@pytest.mark.parametrize(
    ("retain", "expected"),
    [
        (0, SeqRange(10, 30)),
        (8, SeqRange(10, 30)),
        (9, SeqRange(10, 10)),  # the cut before the result moves in front of its call
        (21, SeqRange(10, 10)),
        (22, None),
        (1000, None),
    ],
)
def test_the_range_leaves_a_tail_and_parts_nothing(retain: int, expected: Any) -> None:
    assert chosen(retain) == expected


def test_an_empty_surface_has_no_range() -> None:
    assert compactable_range((), (), (), 0) is None


def test_a_result_without_its_call_is_a_corrupt_surface() -> None:
    with pytest.raises(CorruptLogError):
        balanced_cuts([0, -1, 1])


@pytest.mark.parametrize("span", [(10, 99), (40, 10), (10, 20), (30, 40)])
def test_a_span_that_may_not_be_compacted_is_refused(span: tuple[int, int]) -> None:
    with pytest.raises(RegionError):
        select_region(SURFACE, SeqRange(*span))


def test_a_span_that_may_be_compacted_has_its_price() -> None:
    assert select_region(SURFACE, SeqRange(20, 30)).tokens == 13


def test_only_the_span_must_stay_what_it_was() -> None:
    region = select_region(SURFACE, SeqRange(10, 30))
    grown = PricedSurface((*SURFACE.seqs, 50), (*SURFACE.prices, 1), (*SURFACE.deltas, 0))
    check_unchanged(region, SeqRange(10, 30), grown)
    with pytest.raises(SurfaceChangedError):
        check_whole_surface(SURFACE, grown)
    rewritten = PricedSurface((10, 20, 35, 40), (5, 6, 7, 8), (0, 1, -1, 0))
    for span in (SeqRange(10, 30), SeqRange(10, 35)):
        with pytest.raises(SurfaceChangedError):
            check_unchanged(region, span, rewritten)


def test_a_checkpoint_must_cost_less_than_what_it_shadows() -> None:
    region = select_region(SURFACE, SeqRange(20, 30))
    check_smaller(12, region)
    with pytest.raises(SummaryTooLargeError):
        check_smaller(13, region)


def test_the_frame_of_a_checkpoint_costs_what_the_references_costs() -> None:
    assert message_price(checkpoint_message("c", [], message_id="m")) == 98


def started(*kinds: str) -> list[Any]:
    log = Log()
    for kind in kinds:
        log.add(kind, {"turn": 3})
    return log.events


def test_one_compaction_at_a_time_and_in_its_place() -> None:
    assert check_idle(started("turn/start"), inside_turn=True) == 3
    assert check_idle(started("turn/start", "turn/end"), inside_turn=False) is None
    assert check_idle(started("compaction/start", "session/end-seed"), inside_turn=False) is None
    with pytest.raises(CompactionBusyError):
        check_idle(started("compaction/start"), inside_turn=False)
    with pytest.raises(CompactionBusyError):
        check_idle(started("turn/start"), inside_turn=False)
    with pytest.raises(RegionError):
        check_idle(started("turn/start", "turn/end"), inside_turn=True)


def test_the_summarizer_reads_a_prefix_of_the_conversation() -> None:
    header: Any = {"config": {}, "system": "s"}
    assert summarizer_prefix(header, [{"id": "m"}]) == {"system": "s", "messages": [{"id": "m"}]}
    assert summarizer_prefix(None, []) == {"messages": []}


def test_the_middle_goes_and_other_blocks_stay() -> None:
    policy = PrunePolicy(threshold=50, head=5, tail=5)
    image = {"type": "image"}
    blocks: Any = [text_block("🙂" * 30), image, text_block("b" * 30), text_block("")]
    pruned = prune_blocks(blocks, policy)
    assert pruned == [text_block("🙂" * 5 + MARKER), image, text_block("b" * 5)]
    assert prune_blocks(pruned, policy) is None


def test_a_short_result_is_left_alone() -> None:
    assert prune_blocks([text_block("x" * 50)], PrunePolicy(threshold=50, head=5, tail=5)) is None


def test_two_halves_of_a_character_count_as_one() -> None:
    policy = PrunePolicy(threshold=39, head=0, tail=0)
    assert prune_blocks([text_block("\ud83d\ude42" * 39)], policy) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"threshold": 0},
        {"threshold": 48, "head": 5, "tail": 5},
        {"head": -1},
        {"head": 1.5},
        {"tail": "5"},
        {"size": 3},
    ],
)
def test_lengths_that_contradict_each_other_are_refused(settings: Any) -> None:
    with pytest.raises(PruneConfigError):
        prune_policy(settings)


def test_a_pruned_result_is_priced_and_replaced_at_once() -> None:
    log = Log()
    log.start()
    seq = log.result("c1", "x" * 100)
    policy = PrunePolicy(threshold=50, head=5, tail=5)
    pruned = prune_results([(0, log.events[0]), (seq, log.events[seq])], policy, time=7)
    assert [(one.seq, one.before, one.after) for one in pruned] == [(seq, 100, 49)]
    price = pruned[0].price_event["data"]
    assert price == {
        "shadowedRange": {"start": seq, "end": seq},
        "shadowedSeqs": [seq],
        "shadowedTokenCount": 25 + 4 + 4 + 4,
    }
    appended = [pruned[0].price_event, pruned[0].replacement]
    numbered = [{**event, "seq": seq + 1 + n} for n, event in enumerate(appended)]
    assert fold_surface([*log.events, *numbered]).nodes == [seq + 2]


def test_an_exact_model_overrides_the_default() -> None:
    found = policies(
        {
            "threshold_ratio": 0.5,
            "model_policies": [{"provider": "p", "model": "m", "retain_tokens": 7}],
        }
    )
    assert found.policy("p", "other") == CompactionPolicy(threshold_ratio=0.5)
    own = found.policy("p", "m")
    assert (own.threshold_ratio, own.retain_ratio, own.retain_tokens) == (0.5, None, 7)
    assert (budget(own, 1001).threshold, budget(own, 1001).retain) == (500, 7)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"treshold_ratio": 0.5}, "the settings have no treshold_ratio: is it misspelled"),
        ({"threshold_ratio": 0}, "threshold_ratio cannot be 0"),
        ({"threshold_ratio": 1.1}, "threshold_ratio cannot be 1.1"),
        ({"threshold_ratio": True}, "threshold_ratio cannot be True"),
        ({"retain_ratio": 0.8}, "retain_ratio 0.8 is not below threshold_ratio 0.8"),
        ({"threshold_ratio": 0.1}, "retain_ratio 0.16 is not below threshold_ratio 0.1"),
        (
            {"retain_ratio": 0.1, "retain_tokens": 5},
            "retain_ratio 0.1 and retain_tokens 5 exclude each other",
        ),
        ({"retain_tokens": -1}, "retain_tokens cannot be -1"),
        ({"max_tokens": 1.5}, "max_tokens cannot be 1.5"),
        ({"compaction_retries": -1}, "compaction_retries cannot be -1"),
        (
            {"summarization_provider": "p"},
            "summarization_provider and summarization_model are set together",
        ),
        (
            {"summarization_provider": "p", "summarization_model": ""},
            "summarization_provider and summarization_model are set together",
        ),
        ({"auto": 1}, "auto is true or false"),
        ({"model_policies": {}}, "model_policies is a list"),
        ({"model_policies": [{"provider": "p"}]}, "[0] names a provider and a model"),
        ({"model_policies": [{"provider": "p", "model": "m"}] * 2}, "two policies for p/m"),
        ({"model_policies": [{**MODEL, "windw": 7}]}, "model_policies[0] have no windw"),
        (
            {"model_policies": [{**MODEL, "threshold_ratio": 0.1}]},
            "the policy for p/m: retain_ratio 0.16 is not below threshold_ratio 0.1",
        ),
        (
            {"threshold_ratio": 0.5, "model_policies": [{**MODEL, "retain_ratio": 0.6}]},
            "the policy for p/m: retain_ratio 0.6 is not below threshold_ratio 0.5",
        ),
        (
            {"model_policies": [{**MODEL, "retain_ratio": 0.1, "retain_tokens": 9}]},
            "model_policies[0]: retain_ratio 0.1 and retain_tokens 9 exclude each other",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused_in_one_sentence(settings: Any, sentence: str) -> None:
    with pytest.raises(PolicyError, match=re.escape(sentence)) as refused:
        policies(settings)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("retain", "window", "sentence"),
    [
        (100, 100, "tail of 100 tokens is to stay, and a window of 100 is compacted from 80 on"),
        (80, 100, "tail of 80 tokens is to stay, and a window of 100 is compacted from 80 on"),
        (0, 1, "tail of 0 tokens is to stay, and a window of 1 is compacted from 0 on"),
        (0, 0, "window of 0 tokens: it is a positive integer"),
        (0, -5, "window of -5 tokens: it is a positive integer"),
    ],
)
def test_a_window_without_room_is_refused(retain: int, window: int, sentence: str) -> None:
    with pytest.raises(PolicyError, match=sentence):
        budget(CompactionPolicy(retain_ratio=None, retain_tokens=retain), window)


def test_settings_become_policies_and_contradictions_are_named() -> None:
    model = ModelPolicy.model_validate({"provider": "p", "model": "m", "retain_tokens": 7})
    settings = Settings(compaction_max_tokens=99, compaction_model_policies=(model,))

    found = configured_policies(settings)

    assert found.policy("p", "x") == CompactionPolicy(max_tokens=99)
    own = found.in_force({"config": {"provider": "p", "model": "m"}})
    assert (own.retain_tokens, own.retain_ratio, own.max_tokens) == (7, None, 99)
    assert found.in_force(None) == found.default
    with pytest.raises(PolicyError, match=r"retain_ratio 0\.16 is not below threshold_ratio 0\.1"):
        configured_policies(Settings(compaction_threshold_ratio=0.1))
    with pytest.raises(PolicyError, match="two policies for p/m"):
        configured_policies(Settings(compaction_model_policies=(model, model)))
