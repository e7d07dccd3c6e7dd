"""Ending a compaction that somebody else began: its worker is gone, or an operator says so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from surfacelog.processors.compactor.appends import SessionAppends
from surfacelog.processors.compactor.events import Opening, failed_end_event
from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.schemas.clock import now_ms
from surfacelog.schemas.json_value import int_member, text_member

if TYPE_CHECKING:
    from surfacelog.processors.compactor.appends import Sender
    from surfacelog.processors.compactor.one_compaction import Tools
    from surfacelog.processors.compactor.span_log import SpanLog
    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.schemas.json_value import JsonObject

_log = structlog.get_logger()


async def end_orphan(cut: SurfaceCut, tools: Tools) -> SurfaceCut:
    """End the bracket that stands open on the cut; return a cut on which none does.

    To be called under the session's lock: an open bracket then belongs to a worker that has lost
    it. Should it wake up, the log refuses all that it has to say (`compaction.closed`), and if
    it was faster, the log refuses this end.
    """
    opening = await open_bracket(cut, tools.log)
    if opening is None:
        return cut
    end = failed_end_event(opening, now_ms(), "its worker is gone", "orphaned")
    ended = await _append_end(cut, end, SessionAppends(tools.sender, cut.session_id))
    if ended is not None:
        _log.info("orphan ended", session=cut.session_id, compaction=opening.compaction_id)
    # Refused, it was ended after this cut was taken.
    at_least = cut.as_of_seq + 1 if ended is None else ended
    return await tools.surface_at(cut.session_id, at_least)


async def cancel_compaction(cut: SurfaceCut, log: SpanLog, sender: Sender) -> str | None:
    """End the compaction that is open on the cut as cancelled, whoever works on it.

    The log closes it, so nothing of it can land any more; its worker notices and stops paying.
    Return its id, None when none was open or it ended before. Raises CompactionFailedError.
    """
    opening = await open_bracket(cut, log)
    if opening is None:
        return None
    end = failed_end_event(opening, now_ms(), "cancelled by an operator", "cancelled")
    appends = SessionAppends(sender, cut.session_id, "operator")
    ended = await _append_end(cut, end, appends)
    return None if ended is None else opening.compaction_id


async def open_bracket(cut: SurfaceCut, log: SpanLog) -> Opening | None:
    """Return what the open compaction's events repeat, read from its start; None without one."""
    if cut.open_compaction is None or cut.open_compaction_seq is None:
        return None
    start = await log.data(cut.session_id, cut.open_compaction_seq)
    return Opening(
        cut.open_compaction, int_member(start, "turn"), text_member(start, "sourceCommandId")
    )


async def _append_end(cut: SurfaceCut, end: JsonObject, appends: SessionAppends) -> int | None:
    """Append a compaction/end; return its seq, None when the bracket was closed before."""
    with appends:
        try:
            return await appends.append([end])
        except CompactionFailedError as error:
            if error.failure != "orphaned":
                raise
            _log.info("bracket closed before", session=cut.session_id, reason=error.message)
            return None
