"""The vocabulary of event types (SEMANTICS 2, DESIGN 3) and who may write which (DESIGN 4)."""

from __future__ import annotations

from typing import Final, Literal, get_args

SURFACE_TYPES: Final = frozenset({"user/message", "assistant/message", "tool/result"})

CORE_TYPES: Final = frozenset(
    {
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
        "user/message",
        "assistant/chunk",
        "assistant/message",
        "tool/call",
        "tool/result",
        "todo/write",
        "request/header",
        "request/context",
        "session/end-seed",
        "compaction/start",
        "compaction/summary",
        "compaction/end",
        "compaction/prune",
    }
)

# Log-only types of recorded sessions: known, and carried losslessly as extension events.
RECORDED_TYPES: Final = frozenset(
    {
        "agent/inbox/spliced",
        "agent-preset/selected",
        "permission/preset",
        "approval/asked",
        "approval/decided",
        "approval/policy",
        "sandbox/mode",
        "command/run",
        "command/done",
        "feedback/record",
        "plan/mode",
        "goal/change",
        "hook/invoked",
        "hook/result",
        "llm/retry",
        "llm/retry-started",
        "schedule/change",
        "session/title",
        "session/title-llm-request",
        "subagent/descriptor",
        "tool/code-dispatch",
        "tool/code-dispatch-start",
        "tool-workflow/run-start",
        "tool-workflow/agent-start",
        "tool-workflow/agent-end",
        "tool-workflow/run-end",
        "web/deepseek-search-llm-request",
    }
)

INBOX_POSTED: Final = "surfacelog/inbox-posted"
COMPACTION_RECEIPT: Final = "surfacelog/compaction-receipt"
NO_PROGRESS: Final = "surfacelog/no-progress"
REQUEST_SENT: Final = "surfacelog/request-sent"

# Our own types: log-only and always `ignorable`, so that other readers skip them.
OWN_TYPES: Final = frozenset({INBOX_POSTED, COMPACTION_RECEIPT, NO_PROGRESS, REQUEST_SENT})

KNOWN_TYPES: Final = CORE_TYPES | RECORDED_TYPES | OWN_TYPES

Role = Literal["owner", "contributor", "compactor", "operator", "importer"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
