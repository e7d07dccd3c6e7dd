"""Where a session may be forked (SEMANTICS 8): at an existing event, not inside an open turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.json_value import is_count, member

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.schemas.json_value import JsonObject, JsonValue


class ForkBoundaryError(SurfacelogError):
    """No event of the session has that seq."""

    code: ClassVar[str] = "fork.invalid_boundary"


class ForkOpenTurnError(SurfacelogError):
    """The boundary stands inside a turn that has not ended there."""

    code: ClassVar[str] = "fork.open_turn"


def fork_prefix(events: Sequence[JsonObject], boundary: JsonValue = None) -> list[JsonObject]:
    """Return the events up to and including `boundary`, a seq; all of them by default.

    Raises ForkBoundaryError or ForkOpenTurnError.
    """
    if boundary is None:
        boundary = len(events) - 1
        if not events:
            return []
    if not is_count(boundary) or boundary >= len(events):  # type: ignore[operator]  # a count
        raise ForkBoundaryError(
            f"no event has seq {boundary}: the last one is {len(events) - 1}", boundary=boundary
        )
    prefix = list(events[: int(boundary) + 1])  # type: ignore[arg-type]  # a count
    for event in reversed(prefix):
        if event.get("type") == "turn/end":
            break
        if event.get("type") == "turn/start":
            turn = member(event.get("data"), "turn")
            raise ForkOpenTurnError(
                f"seq {boundary} stands inside turn {turn}: fork where a turn has ended",
                boundary=boundary,
                turn=turn,
            )
    return prefix
