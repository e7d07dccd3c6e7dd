"""What a compaction asks a summarizer for, and what it takes back (DESIGN 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol

from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from surfacelog.projections.span_facts import SpanFacts
    from surfacelog.schemas.json_value import JsonObject


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """The span to summarize, and what the log knows about it beside its messages.

    `messages` are the span's, verbatim and in the order of the Surface; `header` is the request
    header in force, so that a model sees the conversation's own prefix. A good summary costs,
    framed as a checkpoint, less than `shadowed_tokens`, and no more than `max_tokens`. `model`
    is the one to ask; when it is empty the summarizer decides.
    """

    session_id: str
    header: JsonObject | None
    messages: tuple[JsonObject, ...]
    facts: SpanFacts
    shadowed_tokens: int
    max_tokens: int
    model: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary's text blocks and how they came about, as compaction/summary records it.

    `usage` and `raw_output` are a model's; `max_tokens` is what it was allowed; `attempts`
    counts the calls, the failed ones included.
    """

    blocks: tuple[JsonObject, ...]
    provider: str
    model: str
    max_tokens: int | None = None
    usage: JsonObject | None = None
    raw_output: tuple[JsonObject, ...] | None = None
    attempts: int = 1


class SummaryError(SurfacelogError):
    """What came back is not a good summary (SEMANTICS 6): the compaction fails as `summary`.

    `cost` says what was paid for it all the same: provider, model, usage and attempts.
    """

    code: ClassVar[str] = "summary"

    def __init__(self, message: str, cost: JsonObject | None = None) -> None:
        super().__init__(message)
        self.cost = cost


class Summarizer(Protocol):
    """Turns a span into a summary."""

    @property
    def identity(self) -> str:
        """Names the summarizer and all its settings that can change a summary.

        A result that was kept under the same span and identity is used again.
        """
        ...

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Return the summary of the span, or raise `SummaryError`."""
        ...
