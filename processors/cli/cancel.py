"""`surfacelog compact --cancel`: end the compaction that is running (DESIGN 12)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from surfacelog.processors.compactor.span_log import SpanLog
from surfacelog.processors.compactor.takeover import cancel_compaction
from surfacelog.producers.append_client import AppendClient
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.projections.reader import SurfaceReader

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings


async def cancel(settings: Settings, session: str) -> JsonObject:
    """Close the session's open compaction in the log; return what is printed about it.

    Nothing to cancel is no failure: a compaction that ended before is over as well. Raises
    NotFoundError, ServiceError and CompactionFailedError.
    """
    async with AsyncExitStack() as opened:
        reader = await opened.enter_async_context(await SurfaceReader.connect(settings))
        cut = await reader.read(session)
        client = await AppendClient.connect(settings)
        opened.push_async_callback(client.close)
        log = SpanLog(LogReader(settings, client.codec, SessionIndex(settings)))
        compaction_id = await cancel_compaction(cut, log, client)
    if compaction_id is None:
        return {
            "session": session,
            "compaction_id": None,
            "status": "nothing_to_do",
            "reason": "no compaction of the session is running",
        }
    return {"session": session, "compaction_id": compaction_id, "status": "cancelled"}
