from __future__ import annotations

from dataclasses import replace

import pytest

from surfacelog.processors.compactor.condition import tokens_to_retain
from surfacelog.projections.compaction_plan import NothingToCompactError
from surfacelog.projections.compaction_policy import policies
from surfacelog.projections.reader import SurfaceCut, Tokens
from surfacelog.schemas.records import CompactionRequest, Trigger

POLICIES = policies({"model_policies": [{"provider": "p", "model": "small", "retain_tokens": 7}]})


def request(trigger: Trigger, retain: int | None = None) -> CompactionRequest:
    return CompactionRequest("r", "s", trigger, 0, "test", None, retain)


def cut(total: int | None, window: int | None, model: str = "m") -> SurfaceCut:
    return SurfaceCut(
        session_id="s",
        as_of_seq=0,
        generation=0,
        tokens=Tokens(0, 0, total, None),
        nodes=(),
        messages=(),
        prices=(),
        header={"config": {"provider": "p", "model": model}},
        context={} if window is None else {"contextWindow": window},
        open_turn=None,
        open_step=None,
        open_compaction=None,
        epoch=1,
    )


def test_a_manual_request_says_what_stays_and_an_overflow_leaves_the_last_node() -> None:
    full = cut(999, 1000)

    assert tokens_to_retain(request("manual", 50), full, POLICIES) == 50
    assert tokens_to_retain(request("manual"), full, POLICIES) == 0
    assert tokens_to_retain(request("context-overflow"), full, POLICIES) == 0


def test_pressure_holds_from_the_threshold_on_and_keeps_the_models_share() -> None:
    assert tokens_to_retain(request("pressure"), cut(800, 1000), POLICIES) == 160
    assert tokens_to_retain(request("pressure"), cut(800, 1000, "small"), POLICIES) == 7
    with pytest.raises(NothingToCompactError, match="below the threshold of 800"):
        tokens_to_retain(request("pressure"), cut(799, 1000), POLICIES)


@pytest.mark.parametrize(("total", "window"), [(800, None), (None, 1000)])
def test_pressure_without_a_measure_asks_for_nothing(total: int | None, window: int | None) -> None:
    with pytest.raises(NothingToCompactError, match="cannot be measured"):
        tokens_to_retain(request("pressure"), cut(total, window), POLICIES)


def test_a_session_without_a_request_header_has_the_default_policy() -> None:
    other = replace(cut(800, 1000, "small"), header=None)

    assert tokens_to_retain(request("pressure"), other, POLICIES) == 160
