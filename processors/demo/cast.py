"""Which recorded sessions the demo plays, and how."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from surfacelog.schemas.json_value import member, text_member
from surfacelog.schemas.jsonl import read_log
from surfacelog.schemas.legacy import upgrade_events

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject

RECORDINGS: Final = Path("tests", "data", "recordings")

STAR: Final = "web-goal-multi-turn-actions"
"""The session that is compacted on request while it is being written."""

PARTITIONS: Final = 6
REVIEWS: Final = {
    "review-of-projections": Path("projections"),
    "review-of-schemas": Path("schemas"),
}
"""The sessions that become too long, and what their agents read. Of two compactors each gets one:
their partitions are in different halves."""

AGENTS: Final = (
    (STAR,),
    ("web-approval-composer",),
    ("headless-agent-compaction-recovery", "acp-agent-fs-policy-reject"),
    ("acp-agent-workspace-edit", "acp-agent-code-mode-turn", "acp-agent-subagent-multi"),
)
"""One line an agent process: the sessions that it plays at the same time."""


@dataclass(frozen=True, slots=True)
class Part:
    """One recording and the session id that it is played under (recordings share ids)."""

    session: str
    file: Path


@dataclass(frozen=True, slots=True)
class Cast:
    """`agents` are played live, one tuple a process; `imports` are imported meanwhile."""

    agents: tuple[tuple[Part, ...], ...]
    imports: tuple[Part, ...]

    @property
    def live(self) -> tuple[Part, ...]:
        """The parts of all agents."""
        return tuple(part for agent in self.agents for part in agent)


def find_cast(recordings: Path) -> Cast:
    """Return the cast for a directory of recordings."""
    parts = {part.session: part for part in map(_part, sorted(recordings.glob("*.jsonl")))}
    agents = tuple(tuple(parts.pop(session) for session in sessions) for sessions in AGENTS)
    return Cast(agents, tuple(parts.values()))


def script(part: Part) -> list[JsonObject]:
    """Return a recording's events as an agent writes them: the recorded compactions left out."""
    log = read_log(part.file.read_bytes(), default_depth=True)
    events = upgrade_events(log.events, part.session)
    return [event for event in events if not _is_compaction(event)]


def _part(file: Path) -> Part:
    return Part(re.sub(r"-session(?=[.\d])|\.jsonl$", "", file.name), file)


def _is_compaction(event: JsonObject) -> bool:
    """True for a compaction's own events, the checkpoint included."""
    if str(event["type"]).startswith("compaction/"):
        return True
    return text_member(member(event["data"], "source"), "plugin") == "compact"
