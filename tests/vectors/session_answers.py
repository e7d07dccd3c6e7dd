"""Our answers about a session that a log has seeded: surface, prices, ranges, appends."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from surfacelog.projections.compaction_region import PricedSurface
from surfacelog.projections.fold import FoldedLog, LogFold
from surfacelog.projections.fork_boundary import fork_prefix
from surfacelog.projections.pairing import balanced_cuts
from surfacelog.projections.pruner import prune_policy, prune_results
from surfacelog.projections.request_header import last_header
from surfacelog.projections.seed import end_seed, needs_end_seed
from surfacelog.schemas.event_rules import check_lossless, check_retired
from surfacelog.schemas.session_header import child_header
from tests.vectors.agreement import Refused
from tests.vectors.cases import NOW
from tests.vectors.log_answers import attempt

if TYPE_CHECKING:
    from tests.vectors.cases import Case


class Session:
    """A seeded session that goes on: every append is checked and folded."""

    def __init__(self, events: list[Any]) -> None:
        self.events: list[Any] = []
        self._fold = LogFold()
        for event in events:
            self._take(event)
        if needs_end_seed(events):
            self._take(end_seed(len(events), NOW))
        self.seeded = len(self.events)

    @property
    def state(self) -> FoldedLog:
        """The state after the last event."""
        return self._fold.result()

    @property
    def surface(self) -> PricedSurface:
        """The surface as a compaction sees it."""
        state = self.state
        return PricedSurface(state.nodes, state.prices, state.deltas)

    @property
    def appended(self) -> list[Any]:
        """What was appended after the seed."""
        return self.events[self.seeded :]

    def append(self, kind: str, data: Any, **options: Any) -> Any:
        """Append an event and return it; its data is not checked, as in the reference."""
        event = {"type": kind, "seq": len(self.events), "time": NOW, "data": data, **options}
        check_lossless(event)
        check_retired(event)
        self._take(event)
        return event

    def _take(self, event: Any) -> None:
        self._fold.apply(event)
        self.events.append(event)


@lru_cache(maxsize=1)
def _state(case: Case) -> FoldedLog:
    return Session(case.events).state


def surface(case: Case) -> Any:
    state = _state(case)
    return {"nodes": list(state.nodes), "replaceGeneration": state.generation}


def messages(case: Case) -> Any:
    return [message for message in _state(case).messages if message is not None]


def per_node(case: Case) -> Any:
    return [None if message is None else message.get("id") for message in _state(case).messages]


def request_context(case: Case) -> Any:
    return _state(case).context


def session_request_header(case: Case) -> Any:
    return last_header(case.events)


def node_tokens(case: Case) -> Any:
    return list(_state(case).prices)


def header_tokens(case: Case) -> Any:
    last_header(case.events)
    return _state(case).header_tokens


def pairing(case: Case) -> Any:
    state = _state(case)
    cuts = attempt(lambda: balanced_cuts(state.deltas))
    if isinstance(cuts, Refused):
        return [{"seq": seq, "before": cuts, "after": cuts} for seq in state.nodes]
    return [
        {"seq": seq, "before": cuts[at], "after": cuts[at + 1]}
        for at, seq in enumerate(state.nodes)
    ]


def measure(case: Case) -> Any:
    state = _state(case)
    measured = state.measurement
    if measured is None:
        return Refused("meter", message=state.refusal or "")
    baseline: dict[str, Any] = {"kind": measured.kind, "tokens": measured.baseline}
    if measured.kind == "usage":
        baseline["usage"] = measured.usage
    nodes = zip(state.nodes, state.prices, strict=True)
    return {
        "logRevision": state.events,
        "baseline": baseline,
        "surfaceDeltaTokens": measured.surface_delta,
        "totalTokens": measured.total,
        "surfaceTokens": measured.surface,
        "nodes": [{"seq": seq, "tokens": price} for seq, price in nodes],
    }


def ranges(case: Case) -> Any:
    return [_range(_state(case), budget) for budget in case.question["retainTokens"]]


def _range(state: FoldedLog, budget: int) -> Any:
    found = attempt(lambda: state.compactable_range(budget))
    if isinstance(found, Refused):
        return found
    span = None if found is None else {"start": found.start, "end": found.end}
    answer = {"retainTokens": budget, "range": span}
    return answer if state.measurement is not None else {**answer, "meterError": True}


def appends(case: Case) -> Any:
    return _appended(case)[1]


def append_nodes(case: Case) -> Any:
    return list(_appended(case)[0].state.nodes)


def _appended(case: Case) -> tuple[Session, list[Any]]:
    session = Session(case.events)
    outcomes = []
    for one in case.question["append"]:
        options = one.get("opts") or {}
        event = attempt(partial(session.append, one["type"], one["data"], **options))
        outcomes.append(event if isinstance(event, Refused) else {"ok": True, "event": event})
    return session, outcomes


def fork(case: Case) -> Any:
    parent = Session(case.events)
    prefix = fork_prefix(parent.events, case.question["fork"].get("boundary"))
    child = Session(prefix)
    ids: dict[str, Any] = {"version": 0, "id": "case-parent", "cwd": "/w"}
    header = child_header(ids, "case-child", seed_length=len(prefix), created_at=NOW)
    return {
        "header": header,
        "last": child.events[-1],
        "length": len(child.events),
        "nodes": list(child.state.nodes),
    }


def prune_session(case: Case) -> Any:
    session = Session(case.events)
    policy = prune_policy(policy_names(case.question["pruneSession"]["config"]))
    nodes = [(seq, session.events[seq]) for seq in session.state.nodes]
    entries = []
    for pruned in prune_results(nodes, policy, NOW):
        session.append("compaction/prune", pruned.price_event["data"])
        replacement = session.append(
            "tool/result",
            pruned.replacement["data"],
            sourceEventSeqs=pruned.replacement["sourceEventSeqs"],
            surfaceOp=pruned.replacement["surfaceOp"],
        )
        entries.append(
            {
                "originalSeq": pruned.seq,
                "replacementSeq": replacement["seq"],
                "callId": pruned.call_id,
                "charsBefore": pruned.before,
                "charsAfter": pruned.after,
            }
        )
    removed = sum(entry["charsBefore"] - entry["charsAfter"] for entry in entries)
    return {
        "result": {"pruned": entries, "charsRemoved": removed},
        "appended": session.appended,
        "nodes": list(session.state.nodes),
    }


def policy_names(config: dict[str, Any]) -> dict[str, Any]:
    """The reference says thresholdChars where we say threshold."""
    return {name.removesuffix("Chars"): value for name, value in config.items()}
