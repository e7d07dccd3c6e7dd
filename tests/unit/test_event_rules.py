"""What makes one event admissible, by example."""

from __future__ import annotations

from typing import Any

import pytest

from surfacelog.schemas.errors import AdmissionError, UnsupportedLogError
from surfacelog.schemas.event_rules import (
    check_event,
    check_known_type,
    check_lossless,
    require_known_types,
)
from surfacelog.schemas.surface_form import cited_seqs

USER = {"id": "m1", "role": "user", "content": [], "source": {"kind": "user"}}
MODEL = {"kind": "model", "provider": "p", "model": "m"}
BLOCK = {"type": "tool-result", "toolCallId": "c1", "content": []}


def event(kind: Any, data: Any, **more: Any) -> Any:
    return {"type": kind, "time": 1, "data": data, **more}


def user(**changes: Any) -> Any:
    return event("user/message", {**USER, **changes}, surfaceOp="append")


def assistant(**changes: Any) -> Any:
    message = {"id": "m2", "role": "assistant", "content": [], "source": MODEL, **changes}
    return event(
        "assistant/message", {"turn": 1, "step": 1, "message": message}, surfaceOp="append"
    )


def result(**changes: Any) -> Any:
    source = {"kind": "tool", "callId": "c1"}
    message = {"id": "m3", "role": "user", "content": [BLOCK], "source": source, **changes}
    return event("tool/result", {"turn": 1, "step": 1, "message": message}, surfaceOp="append")


def header(config: Any, **more: Any) -> Any:
    data = {"reason": "initial", "header": {"config": config, **more}}
    return event("request/header", data)


CONFIG = {"provider": "p", "model": "m"}

ADMISSIBLE = [
    event("turn/start", {"turn": 1}),
    event("turn/start", None, seq=0, ignorable=True),
    event("turn/start", {}, time=-1),
    event("turn/start", {}, time=1.0),
    event("anything/else", "text"),
    user(),
    user(content=["not a block", None], extra=1),
    assistant(),
    assistant(source={**MODEL, "replayState": [1]}),
    result(),
    header(CONFIG),
    header({**CONFIG, "maxTokens": 5}, adapterDefaults={"maxTokens": True}),
    header(CONFIG, adapterDefaults={}),
]

REFUSED = [
    ("malformed", "text"),
    ("malformed", {"type": "turn/start", "time": 1}),
    ("malformed", event("turn/start", {}, time=1.5)),
    ("malformed", event("turn/start", {}, time=True)),
    ("malformed", event("turn/start", {}, time=2**53)),
    ("malformed", event("turn/start", {}, seq=-1)),
    ("malformed", event("turn/start", {}, ignorable=False)),
    ("malformed", event("turn/start", {}, note=1)),
    ("malformed", event(["turn/start"], {})),
    ("unsupported_type", event("request/header-delta", {})),
    ("malformed", event("request/header", {"header": {"config": CONFIG}, "reason": "fallback"})),
    ("malformed", header({"provider": "p", "model": ""})),
    ("malformed", header({**CONFIG, "reasoningEffort": ""})),
    ("malformed", header(CONFIG, adapterDefaults={"maxTokens": True})),
    ("malformed", header({**CONFIG, "maxTokens": 5}, adapterDefaults={"maxTokens": False})),
    ("malformed", header(CONFIG, adapterDefaults={"model": True})),
    ("malformed", header(CONFIG, adapterDefaults=None)),
    ("malformed", user(id="")),
    ("malformed", user(role="assistant")),
    ("malformed", user(source={"kind": ""})),
    ("malformed", user(content="text")),
    ("malformed", assistant(source={"kind": "user"})),
    ("malformed", assistant(source={"kind": "model", "provider": "p"})),
    ("malformed", result(content=[BLOCK, BLOCK])),
    ("malformed", result(content=[{**BLOCK, "toolCallId": "c2"}])),
    ("malformed", result(content=[{**BLOCK, "content": "text"}])),
    ("surface.op", event("turn/start", {}, surfaceOp="append")),
    ("surface.op", event("turn/start", {}, sourceEventSeqs=[])),
    ("surface.op", event("user/message", USER)),
    ("surface.op", event("user/message", USER, surfaceOp={"op": "replace", "start": 1})),
]


@pytest.mark.parametrize("admissible", ADMISSIBLE)
def test_an_admissible_event_passes(admissible: Any) -> None:
    check_event(admissible)


@pytest.mark.parametrize(("code", "refused"), REFUSED)
def test_what_breaks_a_rule_is_refused_with_its_code(code: str, refused: Any) -> None:
    with pytest.raises(AdmissionError) as caught:
        check_event(refused)
    assert caught.value.refusal == code
    assert caught.value.event_index is None


def test_only_an_assistant_may_say_that_it_cites_nothing() -> None:
    assert cited_seqs({**assistant(), "sourceEventSeqs": []}) == frozenset()
    with pytest.raises(AdmissionError):
        cited_seqs({**user(), "sourceEventSeqs": []})


@pytest.mark.parametrize("number", [-0.0, float("inf"), float("nan")])
def test_numbers_that_json_loses_are_refused_at_any_depth(number: float) -> None:
    value: Any = number
    for _ in range(50_000):
        value = [value]
    with pytest.raises(AdmissionError):
        check_lossless(value)
    check_lossless([0, 0.0, 1.5, -1, True, None, "x"])


def test_an_unknown_type_is_unsupported_unless_it_may_be_skipped() -> None:
    unknown = event("other/type", {})
    with pytest.raises(AdmissionError) as caught:
        check_known_type(unknown)
    assert caught.value.refusal == "unsupported_type"
    with pytest.raises(UnsupportedLogError):
        require_known_types([unknown])
    check_known_type({**unknown, "ignorable": True})
    require_known_types([{**unknown, "ignorable": True}, event("todo/write", {})])
