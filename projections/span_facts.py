"""What the log says about a span beside its messages: todos, error codes, the place in the turn.

A pure fold of the span's events; streaming chunks may be left out of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from surfacelog.schemas.json_value import (
    int_member,
    list_member,
    member,
    object_member,
    text_member,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from surfacelog.schemas.json_value import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class Todo:
    """One entry of the last todo/write."""

    content: str
    status: str


@dataclass(frozen=True, slots=True)
class SpanFacts:
    """The facts of a span.

    `todos` is the last list written, None when none was written within the span. `error_codes`
    maps a call id to the code of its failed result. `failures` are the texts of turns that ended
    in an error. `turn` and `step` are the last ones begun, None when they have ended.
    """

    todos: tuple[Todo, ...] | None = None
    error_codes: Mapping[str, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    turn: int | None = None
    step: int | None = None


def span_facts(events: Iterable[JsonObject]) -> SpanFacts:
    """Fold a span's events, in the order of the log."""
    todos: tuple[Todo, ...] | None = None
    codes: dict[str, str] = {}
    failures: list[str] = []
    turn: int | None = None
    step: int | None = None
    for event in events:
        data = event["data"]
        match event["type"]:
            case "turn/start":
                turn, step = int_member(data, "turn"), None
            case "turn/end":
                turn, step = None, None
                failures.extend(_failure(data))
            case "step/start":
                turn, step = int_member(data, "turn"), int_member(data, "step")
            case "step/end":
                step = None
            case "todo/write":
                todos = tuple(map(_todo, list_member(data, "todos")))
            case "tool/result":
                codes.update(_error_code(data))
    return SpanFacts(todos, codes, tuple(failures), turn, step)


def _todo(entry: JsonValue) -> Todo:
    return Todo(text_member(entry, "content") or "", text_member(entry, "status") or "pending")


def _error_code(data: JsonValue) -> dict[str, str]:
    call_id = text_member(object_member(object_member(data, "message"), "source"), "callId")
    error = object_member(data, "error")
    code = text_member(error, "code") or text_member(error, "name")
    return {call_id: code} if call_id is not None and code is not None else {}


def _failure(data: JsonValue) -> list[str]:
    reason = object_member(data, "reason")
    if text_member(reason, "kind") != "error":
        return []
    error = member(reason, "error")
    text = error if isinstance(error, str) else text_member(error, "message")
    return [text] if text else []
