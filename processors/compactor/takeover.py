"""Ending a compaction whose worker is gone, so that the session can be compacted again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import structlog

from surfacelog.processors.compactor.appends import SessionAppends
from surfacelog.processors.compactor.events import Opening, failed_end_event
from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.schemas.json_value import int_member, text_member

if TYPE_CHECKING:
    from surfacelog.processors.compactor.one_compaction import Tools
    from surfacelog.projections.reader import SurfaceCut

VISIBLE_SECONDS: Final = 60.0

_log = structlog.get_logger()


async def end_orphan(cut: SurfaceCut, tools: Tools) -> SurfaceCut:
    """End the bracket that stands open on the cut; return a cut on which none does.

    To be called under the session's lock: an open bracket then belongs to a worker that has lost
    it. Should it wake up, the log refuses all that it has to say (`compaction.closed`), and if
    it was faster, the log refuses this end.
    """
    if cut.open_compaction is None or cut.open_compaction_seq is None:
        return cut
    session_id, seq = cut.session_id, cut.open_compaction_seq
    start = await tools.log.data(session_id, seq)
    opening = Opening(
        cut.open_compaction, int_member(start, "turn"), text_member(start, "sourceCommandId")
    )
    end = failed_end_event(opening, _now(), "its worker is gone", "orphaned")
    try:
        with SessionAppends(tools.sender, session_id) as appends:
            ended = await appends.append([end])
        _log.info("orphan ended", session=session_id, compaction=opening.compaction_id)
    except CompactionFailedError as error:
        if error.failure != "orphaned":
            raise
        ended = cut.as_of_seq + 1  # it was ended after this cut was taken
    return await tools.surface.read(session_id, at_least=ended, timeout=VISIBLE_SECONDS)


def _now() -> int:
    return time.time_ns() // 1_000_000
