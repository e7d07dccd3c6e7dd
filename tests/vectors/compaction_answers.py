"""Our answers about compactions: one transaction over a span, and the policy's settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from surfacelog.processors.compactor.events import Opening, start_event
from surfacelog.projections.checkpoint import checkpoint_message, replacement_sources
from surfacelog.projections.compaction_policy import (
    CompactionPolicy,
    budget,
    policies,
)
from surfacelog.projections.compaction_region import (
    CompactionBusyError,
    Region,
    SurfaceChangedError,
    check_idle,
    check_smaller,
    check_unchanged,
    check_whole_surface,
    select_region,
    summarizer_prefix,
)
from surfacelog.projections.tokens import message_price
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.records import SeqRange
from tests.vectors.agreement import Refused
from tests.vectors.cases import NOW
from tests.vectors.session_answers import Session

if TYPE_CHECKING:
    from tests.vectors.cases import Case


class SummarizerFailedError(SurfacelogError):
    """The case says that the summarizer fails."""

    code = "summary"


class Transaction:
    """One compaction as the reference runs it: bracket, summary, stability check, publication.

    A manual one (no owner) tells its failures by class, an automatic one does not.
    """

    def __init__(self, session: Session, wish: dict[str, Any]) -> None:
        self._session = session
        self._wish = wish
        self._span = SeqRange(wish["start"], wish["end"])
        self._manual = wish.get("owner") is None
        self.input: Any = None

    def run(self) -> Any:
        """Return the result, or the refusal; what was appended is in the session."""
        try:
            region = select_region(self._session.surface, self._span)
            turn = check_idle(self._session.events, inside_turn=not self._manual)
        except CompactionBusyError as error:
            return Refused("busy", message=error.message)
        except SurfacelogError as error:
            return Refused(error.code, message=error.message)
        opening = Opening("uuid-1", turn, self._wish.get("sourceCommandId"))  # type: ignore[arg-type]
        started = self._session.append("compaction/start", start_event(opening, NOW)["data"])
        members = started["data"]
        try:
            summary = self._summarize(region)
            checkpoint = self._checkpoint(region, summary)
        except SurfacelogError as error:
            self._session.append("compaction/end", {**members, "error": error.message})
            changed = isinstance(error, SurfaceChangedError)
            return Refused("changed" if changed else "summary", message=error.message)
        return self._publish(region, started, summary, checkpoint)

    def _summarize(self, region: Region) -> list[Any]:
        """Build the summarizer's input, let the session go on as the case says, and answer."""
        state = self._session.state
        if state.measurement is None:
            raise SummarizerFailedError(state.refusal or "")
        shown = dict(zip(state.nodes, state.messages, strict=True))
        messages = [m for seq in region.seqs if (m := shown[seq]) is not None]
        prefix = summarizer_prefix(state.header, messages)
        tools: Any = prefix.get("tools")
        self.input = {
            "system": prefix.get("system"),
            "tools": None if tools is None else len(tools),
            "messageIds": [message["id"] for message in messages],
        }
        self._before = self._session.surface
        for one in self._wish.get("during", []):
            self._session.append(one["type"], one["data"], **(one.get("opts") or {}))
        if "summarizeError" in self._wish:
            raise SummarizerFailedError(self._wish["summarizeError"])
        return [{"type": "text", "text": text} for text in self._wish["summary"]]

    def _checkpoint(self, region: Region, summary: list[Any]) -> Any:
        command = self._wish.get("sourceCommandId")
        message = checkpoint_message(
            "uuid-1", summary, message_id="uuid-2", source_command_id=command
        )
        check_smaller(message_price(message), region)
        if self._wish.get("stability", self._default_stability()) == "whole-surface":
            check_whole_surface(self._before, self._session.surface)
        else:
            check_unchanged(region, self._span, self._session.surface)
        return message

    def _default_stability(self) -> str:
        return "selected-span" if self._manual else "whole-surface"

    def _publish(self, region: Region, started: Any, summary: list[Any], checkpoint: Any) -> Any:
        opening = {name: v for name, v in started["data"].items() if name != "turn"}
        shadowed = {
            "shadowedRange": {"start": self._span.start, "end": self._span.end},
            "shadowedSeqs": list(region.seqs),
            "shadowedTokenCount": region.tokens,
        }
        call = {
            name: self._wish[name]
            for name in ("rawOutput", "llmStreamCall", "maxTokens", "usage")
            if name in self._wish
        }
        data = {**opening, "summary": summary, **shadowed, "provider": "p", "model": "m", **call}
        summarized = self._session.append("compaction/summary", data)
        self._session.append(
            "user/message",
            checkpoint,
            sourceEventSeqs=replacement_sources(started["seq"], summarized["seq"], region.seqs),
            surfaceOp={"op": "replace", **shadowed["shadowedRange"]},  # type: ignore[dict-item]
        )
        ended = self._session.append("compaction/end", started["data"])
        seqs = {"startSeq": started["seq"], "summarySeq": summarized["seq"]}
        return {**opening, **seqs, "summary": summary, **shadowed, "endSeq": ended["seq"]}


def compact(case: Case) -> Any:
    session = Session(case.events)
    wish = case.question["compact"]
    for one in wish.get("pre", []):
        session.append(one["type"], one["data"], **(one.get("opts") or {}))
    before = len(session.events)
    transaction = Transaction(session, wish)
    answer = {
        "result": transaction.run(),
        "appended": session.events[before:],
        "nodes": list(session.state.nodes),
    }
    return answer if transaction.input is None else {**answer, "input": transaction.input}


def compact_config(case: Case) -> Any:
    wish = case.question["compactConfig"]
    config = {_snake(name): value for name, value in wish["config"].items()}
    if isinstance(config.get("model_policies"), list):
        config["model_policies"] = [
            {_snake(k): v for k, v in entry.items()} if isinstance(entry, dict) else entry
            for entry in config["model_policies"]
        ]
    found = policies(config)
    target = wish["target"]
    policy = found.policy(target["provider"], target["model"])
    scaled = budget(policy, wish["contextWindow"])
    overrides = [
        {"provider": key[0], "model": key[1]} | {_camel(name): v for name, v in own.items()}
        for key, own in found.overrides.items()
    ]
    own = {"modelPolicies": overrides, "auto": found.automatic}
    spec = {name: v for name, v in _fields(policy).items() if not name.startswith("retain")}
    spec |= {
        "contextWindow": scaled.window,
        "thresholdTokens": scaled.threshold,
        "retainTokens": scaled.retain,
    }
    return {
        "cfg": _fields(found.default) | own,
        "policy": _fields(policy) | {"target": target},
        "spec": spec | {"target": target},
    }


def _fields(policy: CompactionPolicy) -> dict[str, Any]:
    values = {name: getattr(policy, name) for name in CompactionPolicy.__slots__}
    return {_camel(name): value for name, value in values.items() if value is not None}


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda capital: "_" + capital[0].lower(), name)


def _camel(name: str) -> str:
    return re.sub("_(.)", lambda letter: letter[1].upper(), name)
