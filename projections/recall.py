"""Finding again what the model no longer sees: a search in what was shadowed (SEMANTICS 10)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surfacelog.projections.event_text import event_text
from surfacelog.projections.trace import LogTrace

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    from surfacelog.schemas.json_value import JsonObject


@dataclass(frozen=True, slots=True)
class Recalled:
    """A shadowed event that a pattern was found in.

    `lines` are those of its text in which it was found; `replacement_chain` leads from what
    shadowed the event to the node that stands there now.
    """

    event: JsonObject
    seq: int
    lines: tuple[str, ...]
    replacement_chain: tuple[int, ...]


def recall(events: Sequence[JsonObject], pattern: re.Pattern[str]) -> Iterator[Recalled]:
    """Give the shadowed events with a line that the pattern is found in, in the log's order.

    Only what was appended is searched, as it was said: a checkpoint or a pruned result that was
    shadowed in its turn merely repeats it. `events` are the whole log. Raises AdmissionError and
    CorruptLogError as `LogTrace` and `event_text` do.
    """
    trace = LogTrace(events)
    for seq, event in enumerate(events):
        if event.get("surfaceOp") != "append" or trace.standing(seq) != "shadowed":
            continue
        lines = tuple(line for line in event_text(event).split("\n") if pattern.search(line))
        if lines:
            yield Recalled(event, seq, lines, trace.event(seq).replacement_chain)
