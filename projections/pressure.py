"""When the projector asks for a compaction because a session is full (SEMANTICS 6, DESIGN 7).

What decides is folded from the log, a few numbers a session, so that the check costs the same
whatever the session's length and comes out the same in every process that reads the log.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from surfacelog.projections.compaction_policy import budget
from surfacelog.projections.request_header import canonical_header, header_digest
from surfacelog.schemas.event_types import NO_PROGRESS
from surfacelog.schemas.json_value import (
    int_member,
    member,
    object_member,
    text_member,
    whole_member,
)
from surfacelog.schemas.records import ChunkRun

if TYPE_CHECKING:
    from surfacelog.projections.compaction_policy import CompactionBudget, CompactionPolicies
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import EventBatch

LONGEST_BACKOFF_SECONDS: Final = 600.0
_DOUBLINGS: Final = 16


@dataclass(frozen=True, slots=True)
class NoProgress:
    """The breaker, as a `surfacelog/no-progress` event left it.

    At `as_of_seq`, when the Surface was at `generation` and worth `surface` tokens, no
    compaction could bring the session below its threshold.
    """

    as_of_seq: int
    generation: int
    surface: int


@dataclass(frozen=True, slots=True)
class PressureFacts:
    """What the log says of a session's compactions.

    `window` is the model's, None while unknown; `envelope_seq` is where the request header or the
    window last became another one. `failures` counts the brackets that ended in an error since
    one ended well; the last did at `failed_at` (ms). `concluded` counts them and the no-progress
    events in the same time.
    """

    provider: str = ""
    model: str = ""
    header_digest: str = ""
    window: int | None = None
    envelope_seq: int = -1
    failures: int = 0
    failed_at: int = 0
    concluded: int = 0
    no_progress: NoProgress | None = None

    def after(self, event: JsonObject) -> PressureFacts:
        """Return the facts after the next event of the log; itself when it changes nothing."""
        kind = event.get("type")
        if kind == "request/header":
            return self._with_header(event)
        if kind == "request/context":
            window = whole_member(event.get("data"), "contextWindow")
            return self if window == self.window else self._with_envelope(event, window=window)
        if kind == "compaction/end":
            return self._with_end(event)
        return self._with_no_progress(event) if kind == NO_PROGRESS else self

    def to_json(self) -> JsonObject:
        """Return the facts as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Any) -> PressureFacts:
        """Return what `to_json` was given."""
        breaker = value["no_progress"]
        return cls(**{**value, "no_progress": None if breaker is None else NoProgress(**breaker)})

    def _with_header(self, event: JsonObject) -> PressureFacts:
        header = canonical_header(member(event.get("data"), "header"))
        digest, config = header_digest(header), object_member(header, "config")
        if digest == self.header_digest:
            return self
        return self._with_envelope(
            event,
            header_digest=digest,
            provider=text_member(config, "provider") or "",
            model=text_member(config, "model") or "",
        )

    def _with_envelope(self, event: JsonObject, **changes: Any) -> PressureFacts:
        seq = int_member(event, "seq") or 0
        return replace(self, envelope_seq=seq, no_progress=None, **changes)

    def _with_end(self, event: JsonObject) -> PressureFacts:
        if member(event.get("data"), "error") is None:
            return replace(self, failures=0, failed_at=0, concluded=0)
        return replace(
            self,
            failures=self.failures + 1,
            failed_at=int_member(event, "time") or 0,
            concluded=self.concluded + 1,
        )

    def _with_no_progress(self, event: JsonObject) -> PressureFacts:
        data = event.get("data")
        names = ("asOfSeq", "generation", "surfaceTokens")
        as_of, generation, surface = (int_member(data, name) for name in names)
        breaker = None
        if as_of is not None and generation is not None and surface is not None:
            # What became another envelope after the worker looked may help.
            breaker = NoProgress(as_of, generation, surface) if as_of >= self.envelope_seq else None
        return replace(self, concluded=self.concluded + 1, no_progress=breaker)


@dataclass(frozen=True, slots=True)
class Load:
    """How full a session is: the meter's `total` (None where it refuses) and what it is made of.

    `surface` and `header` are prices by the rule of thumb. `busy` says that no trigger may fire:
    a compaction is open, or the session is still being imported.
    """

    total: int | None
    surface: int
    header: int
    generation: int
    busy: bool = False


class Attempt(NamedTuple):
    """One request for the Surface at `generation`; `number` counts those that came to nothing."""

    generation: int
    number: int

    @property
    def request_id(self) -> str:
        """The request's id: whoever asks again for the same attempt asks with the same one."""
        return f"pressure-{self.generation}-{self.number}"


class Asked(NamedTuple):
    """What was asked for last, at `at` (ms).

    `unlogged` of the attempts before it in this generation came to nothing without a trace in
    the log: the session had room again by then, or the worker failed before it began.
    """

    attempt: Attempt
    at: int
    unlogged: int = 0

    def to_text(self) -> str:
        """Return it as Redis keeps it."""
        return " ".join(map(str, (*self.attempt, self.at, self.unlogged)))

    @classmethod
    def from_text(cls, text: str) -> Asked:
        """Return what `to_text` was given."""
        generation, number, at, unlogged = map(int, text.split())
        return cls(Attempt(generation, number), at, unlogged)


class Later(NamedTuple):
    """Nothing is to be asked before `at`, in ms."""

    at: int


class Pending(NamedTuple):
    """It was asked for, and the log does not say what became of it. Is there an outcome?

    An outcome may be lost: a request that is `overdue` is over as well when the compactors are
    done with it. One that is not is to be looked at again at `again`, in ms.
    """

    request_id: str
    overdue: bool
    again: int


@dataclass(frozen=True, slots=True)
class PressureTrigger:
    """The policies and the pause after a first failure, in seconds."""

    policies: CompactionPolicies
    backoff_seconds: float

    def decide(
        self,
        facts: PressureFacts,
        load: Load,
        asked: Asked | None,
        now: int,
        *,
        is_over: bool = False,
    ) -> Asked | Later | Pending | None:
        """Return what to ask for at `now` (ms), when to look again, or None.

        `asked` is what was asked for last, and `is_over` that nobody works on it any more. Raises
        PolicyError when the policy leaves no room in the model's window.
        """
        if not self._is_pressed(facts, load):
            return None
        last = asked if asked and asked.attempt.generation == load.generation else None
        unlogged = 0 if last is None else last.unlogged + is_over
        attempt = Attempt(load.generation, facts.concluded + unlogged)
        if last is not None and attempt == last.attempt:
            return self._pending(last, now)
        due = facts.failed_at + backoff_ms(self.backoff_seconds, facts.failures)
        if last is not None and is_over:
            due = max(due, last.at + backoff_ms(self.backoff_seconds, unlogged))
        return Later(due) if now < due else Asked(attempt, now, unlogged)

    def overdue_at(self, asked: Asked) -> int:
        """Return when what was asked for should have an outcome, in ms."""
        return asked.at + backoff_ms(self.backoff_seconds, asked.unlogged + 1)

    def _pending(self, asked: Asked, now: int) -> Pending:
        """Looked at again after twice the time, so that a long queue costs few looks."""
        due = self.overdue_at(asked)
        waited = min(now - asked.at, int(LONGEST_BACKOFF_SECONDS * 1000))
        return Pending(asked.attempt.request_id, now >= due, due if now < due else now + waited)

    def _is_pressed(self, facts: PressureFacts, load: Load) -> bool:
        if load.busy or load.total is None or facts.window is None or not self.policies.automatic:
            return False
        scaled = budget(self.policies.policy(facts.provider, facts.model), facts.window)
        return load.total >= scaled.threshold and not stands(facts, load, scaled)


def settles(batch: EventBatch) -> bool:
    """Return whether a step, or a compaction with an error, ends in an append: decide anew then."""
    return any(
        item["type"] == "step/end"
        or (item["type"] == "compaction/end" and member(item["data"], "error") is not None)
        for item in batch.items
        if not isinstance(item, ChunkRun)
    )


def stands(facts: PressureFacts, load: Load, scaled: CompactionBudget) -> bool:
    """Return whether the breaker was released and nothing has changed since that could help.

    Another request header or window helps, a replacement, and new nodes once they are worth the
    whole tail that stays: then it is another tail. They are no help where the header alone is
    over the threshold.
    """
    breaker = facts.no_progress
    if breaker is None or breaker.generation != load.generation:
        return False
    grown = load.surface - breaker.surface
    return load.header >= scaled.threshold or grown < max(scaled.retain, 1)


def backoff_ms(first_seconds: float, failures: int) -> int:
    """Return the pause after so many failures in a row; none after none."""
    if failures == 0:
        return 0
    doubled = first_seconds * 2.0 ** min(failures - 1, _DOUBLINGS)
    return int(min(doubled, LONGEST_BACKOFF_SECONDS) * 1000)
