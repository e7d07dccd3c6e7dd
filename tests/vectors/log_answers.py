"""Our answers about a raw log: may it stand, may it be loaded, what do its views say."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from surfacelog.projections.closers import crash_closers
from surfacelog.projections.compaction_invariants import check_compaction_invariants
from surfacelog.projections.event_text import event_text
from surfacelog.projections.invariants import InvariantError
from surfacelog.projections.loading import load_log
from surfacelog.projections.request_header import last_header
from surfacelog.projections.seed import check_seed, needs_end_seed
from surfacelog.projections.session_invariants import check_session_invariants
from surfacelog.projections.session_title import session_title
from surfacelog.projections.surface import SurfaceFold
from surfacelog.projections.token_views import ContextBreakdown, ContextPressure, TokenUsage
from surfacelog.projections.trace import LogTrace
from surfacelog.schemas.chunk_rows import pack_rows, unpack_row
from surfacelog.schemas.errors import AdmissionError, SurfacelogError
from surfacelog.schemas.json_equal import same_json
from tests.vectors.agreement import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.vectors.cases import Case

SESSION = "case"


def attempt(answer: Callable[[], Any]) -> Any:
    """Return what the call returns, or its refusal."""
    try:
        return answer()
    except AdmissionError as error:
        return Refused(error.refusal, index=error.event_index, message=error.message)
    except InvariantError as error:
        return Refused(error.code, seq=error.seq, message=error.message)
    except SurfacelogError as error:
        return Refused(error.code, message=error.message)


def fold(case: Case) -> Any:
    surface = SurfaceFold()
    for index, event in enumerate(case.events):
        try:
            surface.apply(event)
        except AdmissionError as error:
            seq = _seq_of(event)
            return Refused(error.refusal, index if seq is None else seq, index, error.message)
    replacements = [
        {"seq": one.seq, "start": one.start, "end": one.end, "shadowedSeqs": list(one.shadowed)}
        for one in surface.replacements
    ]
    return {"nodes": surface.nodes, "replacements": replacements}


def seed(case: Case) -> Any:
    check_seed(case.events)
    appended = needs_end_seed(case.events)
    count = len(case.events)
    return {
        "ok": True,
        "firstLiveSeq": count,
        "length": count + appended,
        "endSeedAppended": appended,
    }


def restore(case: Case) -> Any:
    check_seed(case.events, lossless=False)
    return {"ok": True, "length": len(case.events) + needs_end_seed(case.events)}


def load(case: Case) -> Any:
    loaded = load_log(_header(case), case.events)
    length = len(loaded.events) + len(loaded.closers)
    answer = {"ok": True, "length": length, "closers": loaded.closers}
    pairs = zip(case.events, loaded.events, strict=True)
    changed = [new for old, new in pairs if not same_json(old, new)]
    return {**answer, "changed": changed} if changed else answer


def closers(case: Case) -> Any:
    return crash_closers(case.events)


def request_header(case: Case) -> Any:
    return last_header(case.events)


def title(case: Case) -> Any:
    found = session_title(case.events)
    if found is None:
        return None
    return {
        "title": found.title,
        "messageSeqs": found.messages,
        "source": found.source,
        "eventSeq": found.seq,
        "updatedAt": found.time,
    }


def invariants(case: Case) -> Any:
    events = case.events

    def judged(check: Callable[[], None]) -> Any:
        refused = attempt(check)
        return {"ok": True} if refused is None else refused

    return {
        "session": {
            "seed": judged(lambda: check_session_invariants(events)),
            "live": judged(lambda: check_session_invariants(events, live=True)),
        },
        "compaction": {
            "seed": judged(lambda: check_compaction_invariants(events)),
            "live": judged(lambda: check_compaction_invariants(events, live=True)),
        },
    }


def projections(case: Case) -> Any:
    return {
        "tokenUsage": _view(case, TokenUsage(), _usage_state),
        "contextPressure": _view(case, ContextPressure(), _pressure_state),
        "contextBreakdown": _view(case, ContextBreakdown(), _breakdown_state),
    }


def records(case: Case) -> Any:
    trace = LogTrace(case.events)
    return [trace.standing(seq) for seq in range(len(case.events))]


def documents(case: Case) -> Any:
    trace = LogTrace(case.events)
    texts = [(seq, event_text(event)) for seq, event in enumerate(case.events)]
    return [
        {"seq": seq, "surface": trace.standing(seq), "text": text} for seq, text in texts if text
    ]


def traces(case: Case) -> Any:
    trace = LogTrace(case.events)
    return [attempt(partial(_trace, case, trace, seq)) for seq in case.question["trace"]]


def rows(case: Case) -> Any:
    packed = list(pack_rows(case.events))
    unpacked = [event for record in packed for event in unpack_row(record)]
    return {
        "count": len(packed),
        "packed": [record for record in packed if "seq0" in record],
        "roundTrip": same_json(unpacked, case.events),
    }


def _seq_of(event: Any) -> Any:
    return event.get("seq") if isinstance(event, dict) else None


def _header(case: Case) -> Any:
    default = {"version": 0, "id": SESSION, "createdAt": 0, "delegationDepth": 0}
    return case.question.get("header", default)


def _trace(case: Case, trace: LogTrace, seq: Any) -> Any:
    found = trace.event(seq)
    event = case.events[seq]
    target: dict[str, Any] = {"sessionId": "x", "surface": found.standing}
    target |= {name: event[name] for name in ("seq", "type", "time")}
    answer: dict[str, Any] = {
        "target": target,
        "replacementChain": list(found.replacement_chain),
        "replacedEventSeqs": list(found.replaced),
        "sourceEventSeqs": list(found.sources),
        "derivedEventSeqs": list(found.derived),
    }
    if found.replaced_by is not None:
        answer["replacedBy"] = found.replaced_by
    return answer


def _view(case: Case, view: Any, state: Callable[[Any], Any]) -> Any:
    last: Any = None
    try:
        for event in case.events:
            if event is None:
                return Refused("corrupt", seq=last, message="an event is null")
            last = _seq_of(event)
            if isinstance(event, dict):
                view.apply(event)
        return {"value": view.view(), "state": state(view)}
    except SurfacelogError as error:
        return Refused(error.code, seq=last, message=error.message)


def _usage_state(usage: TokenUsage) -> Any:
    last = None
    if usage.last is not None:
        place, buckets = usage.last
        last = {**place, "buckets": buckets}
    return {"totals": usage.totals, "last": last}


def _pressure_state(pressure: ContextPressure) -> Any:
    state: dict[str, Any] = {"surfaceTokens": pressure.surface.tokens}
    state |= pressure.window
    figures = {
        "pressureTokens": pressure.pressure,
        "sampledSurfaceTokens": pressure.sampled,
    }
    state |= {name: value for name, value in figures.items() if value is not None}
    return state | _claim(pressure.surface)


def _breakdown_state(breakdown: ContextBreakdown) -> Any:
    return breakdown.view() | _claim(breakdown.messages)


def _claim(price: Any) -> dict[str, Any]:
    claim = price.claim
    if claim is None:
        return {}
    return {"claim": {"start": claim.start, "end": claim.end, "tokens": claim.tokens}}
