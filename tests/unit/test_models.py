from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from tests.codec_cases import RECORDINGS, batch_of, read_by_fastavro, recorded_events

from surfacelog.projections.pruner import PrunePolicy, prune_results
from surfacelog.schemas.codec import offline_codec
from surfacelog.schemas.event_types import CORE_TYPES
from surfacelog.schemas.json_text import dumps, loads
from surfacelog.schemas.models import (
    DATA_MODELS,
    AssistantMessage,
    CallConfig,
    OtherBlock,
    PluginSource,
    RequestHeader,
    TextBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    surface_event,
)
from surfacelog.schemas.models.chunks import ToolCallDelta
from surfacelog.schemas.models.events import (
    AssistantChunk,
    AssistantMessageData,
    CompactionPrune,
    CompactionStart,
    Todo,
    TodoWrite,
    ToolResult,
    TurnStart,
)
from surfacelog.schemas.records import SeqRange

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import Item

CONFIG = {"provider": "p", "model": "m"}


def on_the_wire(events: list[JsonObject]) -> list[Item]:
    """Return the events as they come back: each one travelled as a typed record, in usual order."""
    payload = offline_codec().encode_batch(batch_of(events))
    for _, event in read_by_fastavro(payload)["events"]:
        assert not event["data"][0].endswith(("Extension", "Malformed")), event
        assert event["order"] is None
        assert event["data"][1].get("order") is None
    return list(offline_codec().decode_batch(payload).items)


def test_recorded_data_survives_its_model() -> None:
    kinds = set()
    for path in RECORDINGS:
        for event in recorded_events(path):
            model = DATA_MODELS.get(str(event["type"]))
            if model is None or dumps(event["data"]).count("{{tools}}"):
                continue  # the recorder's placeholder is no list of tools
            assert dumps(model.from_json(event["data"]).to_json()) == dumps(event["data"])
            kinds.add(event["type"])
    assert len(kinds) >= 15


def test_every_core_type_has_a_model() -> None:
    assert DATA_MODELS.keys() == CORE_TYPES


def test_a_todo_list_survives_its_model_and_is_typed_on_the_wire() -> None:
    todos = [Todo(content="look", status="completed"), Todo(content="fix", status="pending")]
    written = TodoWrite(todos=todos).to_event(7)
    text = (
        '{"type":"todo/write","time":7,"data":{"todos":[{"content":"look","status":"completed"},'
        '{"content":"fix","status":"pending"}]}}'
    )
    assert dumps(written) == text
    assert on_the_wire([written]) == [written]
    more = loads('{"later":[],"todos":[{"status":"new","content":"x","due":1.0}]}')
    assert dumps(TodoWrite.from_json(more).to_json()) == dumps(more)
    with pytest.raises(ValidationError):
        TodoWrite.from_json({"todos": [{"content": "no status"}]})


def test_what_the_pruner_makes_survives_its_models_and_is_typed_on_the_wire() -> None:
    long = ToolResult(turn=1, step=1, message=ToolResultMessage.text("c", "x" * 100))
    (pruned,) = prune_results([(5, surface_event(long, 1))], PrunePolicy(50, 5, 5), time=7)
    price = CompactionPrune.from_json(pruned.price_event["data"])
    assert (price.shadowed_seqs, price.shadowed_range.start) == ([5], 5)
    replacement = ToolResult.from_json(pruned.replacement["data"])
    rebuilt = [
        price.to_event(7),
        surface_event(replacement, 7, sources=[5], replace=SeqRange(5, 5)),
    ]
    assert rebuilt == [pruned.price_event, pruned.replacement]
    assert on_the_wire(rebuilt) == rebuilt


def test_unknown_members_their_order_and_explicit_nulls_are_kept() -> None:
    text = (
        '{"zz":1.0,"id":"m","call_id":null,"source":{"x":[],"kind":"goal"},"role":"user",'
        '"content":[{"text":"t","type":"text"},{"type":"video","":{"2":1,"1":2}}]}'
    )
    message = UserMessage.from_json(loads(text))
    assert isinstance(message.content[0], TextBlock)
    assert isinstance(message.content[1], OtherBlock)
    assert dumps(message.to_json()) == text
    usage = '{"inputTokens":1,"outputTokens":2,"reasoningTokens":null}'
    text = f'{{"turn":1,"step":1,"chunk":{{"type":"usage","usage":{usage}}}}}'
    assert dumps(AssistantChunk.from_json(loads(text)).to_json()) == text


def test_deep_unknown_values_are_kept() -> None:
    text = '{"content":[],"source":{"kind":"x","deep":' + "[" * 5_000 + "]" * 5_000
    text += '},"role":"user","id":"m"}'
    assert dumps(UserMessage.from_json(loads(text)).to_json()) == text


@pytest.mark.parametrize(
    ("model", "value"),
    [
        (UserMessage, {"content": [], "source": {"kind": "user"}, "role": "user", "id": ""}),
        (UserMessage, {"content": [{"type": "text", "text": 1}], "role": "user", "id": "x"}),
        (UserMessage, {"content": {}, "role": "user", "id": "x"}),
        (CallConfig, {"provider": "", "model": "m"}),
        (CallConfig, {"provider": "p", "model": "m", "maxTokens": True}),
        (CallConfig, {"provider": "p", "model": "m", "maxTokens": 1.0}),
        (
            RequestHeader,
            {"config": {"provider": "p", "model": "m"}, "adapterDefaults": {"maxTokens": True}},
        ),
        (PluginSource, {"kind": "plugin", "plugin": "p", "form": "snapshot"}),
        (TurnStart, {"turn": "1"}),
        (TurnStart, None),
    ],
)
def test_what_does_not_fit_is_refused(model: Any, value: Any) -> None:
    with pytest.raises(ValidationError):
        model.from_json(value)


def test_a_tool_result_answers_the_call_of_its_source() -> None:
    answer = ToolResultMessage.text("call-1", "done").to_json()
    answer["source"] = {"kind": "tool", "callId": "call-2"}
    with pytest.raises(ValidationError):
        ToolResultMessage.from_json(answer)


def test_what_writers_build_is_typed_on_the_wire_and_in_its_usual_order() -> None:
    answer = AssistantMessage.text("hello", provider="p", model="m")
    events = [
        TurnStart(turn=1).to_event(1),
        CompactionStart(compaction_id="c", turn=None).to_event(2),
        surface_event(UserMessage.text("hi"), 3, sources=[0], replace=SeqRange(0, 0)),
        surface_event(AssistantMessageData(turn=1, step=1, message=answer), 4, sources=[]),
        surface_event(
            ToolResult(turn=1, step=1, message=ToolResultMessage.text("c", "out", is_error=True)), 5
        ),
    ]
    assert on_the_wire(events) == events


def test_absent_members_are_not_written_and_models_compare_by_value() -> None:
    delta = ToolCallDelta(index=0, id="c", name=None, arguments_delta="{")
    assert list(delta.to_json()) == ["type", "index", "id", "argumentsDelta"]
    assert ToolCallDelta.from_json(delta.to_json()) == delta
    assert ToolCallBlock(id="c", name="n", arguments="{}").to_json()["type"] == "tool-call"
