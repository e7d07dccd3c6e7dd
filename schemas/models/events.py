"""The data of the core events (SEMANTICS 2), and the events that carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from surfacelog.schemas.models.blocks import Block
from surfacelog.schemas.models.chunks import Chunk, Failure, Usage
from surfacelog.schemas.models.header import RequestHeader
from surfacelog.schemas.models.json_model import JsonModel
from surfacelog.schemas.models.messages import AssistantMessage, ToolResultMessage, UserMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import SeqRange


class EventData(JsonModel):
    """The data of one type of event."""

    event_type: ClassVar[str]

    def to_event(self, time: int) -> JsonObject:
        """Return the event, without seq, at a time in ms UTC."""
        return {"type": self.event_type, "time": time, "data": self.to_json()}


class TurnStart(EventData):
    """A turn begins."""

    event_type = "turn/start"
    turn: int


class AbortReason(JsonModel):
    """Who aborted a turn."""

    kind: Literal["user", "parent", "hook", "disposed", "legacy"]


class TurnEndReason(JsonModel):
    """How a turn ended; aborted has a reason, error an error."""

    kind: Literal["completed", "blocked", "max-tokens", "interrupted", "aborted", "error"]
    reason: AbortReason | None = None
    error: Failure | None = None


class TurnEnd(EventData):
    """A turn ends."""

    event_type = "turn/end"
    turn: int
    reason: TurnEndReason


class StepStart(EventData):
    """A step begins."""

    event_type = "step/start"
    turn: int
    step: int


class StepEnd(EventData):
    """A step ends."""

    event_type = "step/end"
    turn: int
    step: int


class AssistantChunk(EventData):
    """One chunk of the model's stream."""

    event_type = "assistant/chunk"
    turn: int
    step: int
    chunk: Chunk


class AssistantMessageData(EventData):
    """The assembled message of the model."""

    event_type = "assistant/message"
    turn: int
    step: int
    message: AssistantMessage
    usage: Usage | None = None
    interrupted: bool | None = None


class ToolCall(EventData):
    """A tool is called; `arguments` is raw JSON text."""

    event_type = "tool/call"
    turn: int
    step: int
    call_id: str
    name: str
    arguments: str


class ToolError(JsonModel):
    """Why a tool failed."""

    name: str
    code: str


class ToolResult(EventData):
    """A tool answered."""

    event_type = "tool/result"
    turn: int
    step: int
    message: ToolResultMessage
    error: ToolError | None = None
    meta: Any = None


class Todo(JsonModel):
    """One entry of the agent's list."""

    content: str
    status: str


class TodoWrite(EventData):
    """The agent's list as a whole."""

    event_type = "todo/write"
    todos: list[Todo]


class RequestHeaderData(EventData):
    """The request header from here on."""

    event_type = "request/header"
    header: RequestHeader
    reason: Literal["initial", "resume", "change"]


class RequestContext(EventData):
    """The route from here on; the window is in tokens."""

    event_type = "request/context"
    provider: str
    model: str
    context_window: int | None = None


class EndSeed(EventData):
    """The log so far was seeded."""

    event_type = "session/end-seed"


class CompactionStart(EventData):
    """A compaction begins; `turn` is the open turn, or None."""

    event_type = "compaction/start"
    compaction_id: str
    source_command_id: str | None = None
    turn: int | None


class ShadowedRange(JsonModel):
    """First and last node of a span of the Surface."""

    start: int
    end: int


class CompactionSummary(EventData):
    """What a span was summarized to."""

    event_type = "compaction/summary"
    compaction_id: str
    source_command_id: str | None = None
    summary: list[Block]
    raw_output: list[Block] | None = None
    llm_stream_call: Literal[True] | None = None
    shadowed_range: ShadowedRange
    shadowed_seqs: list[int]
    shadowed_token_count: int
    provider: str
    model: str
    max_tokens: int | None = None
    usage: Usage | None = None


class CompactionEnd(EventData):
    """A compaction ends, in failure when it has an error."""

    event_type = "compaction/end"
    compaction_id: str
    source_command_id: str | None = None
    turn: int | None
    error: str | None = None
    error_class: str | None = None


class CompactionPrune(EventData):
    """A tool result is about to be pruned."""

    event_type = "compaction/prune"
    shadowed_range: ShadowedRange
    shadowed_seqs: list[int]
    shadowed_token_count: int


DATA_MODELS: Final[dict[str, type[JsonModel]]] = {
    "user/message": UserMessage,
    **{model.event_type: model for model in EventData.__subclasses__()},
}
"""The model of each core type's data."""


def surface_event(
    data: UserMessage | AssistantMessageData | ToolResult,
    time: int,
    *,
    sources: Sequence[int] | None = None,
    replace: SeqRange | None = None,
) -> JsonObject:
    """Return an event, without seq, that appends a node to the Surface or replaces a span of it.

    `sources` are the seqs that it derives from; -1-i cites the i-th event of the same append. A
    replacement needs every seq that it shadows among them (SEMANTICS 3).
    """
    kind = "user/message" if isinstance(data, UserMessage) else data.event_type
    event: JsonObject = {"type": kind, "time": time, "data": data.to_json()}
    if sources is not None:
        event["sourceEventSeqs"] = list(sources)
    event["surfaceOp"] = (
        "append"
        if replace is None
        else {"op": "replace", "start": replace.start, "end": replace.end}
    )
    return event
