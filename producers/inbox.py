"""Posting to another agent's session: the contributor's side of the log (DESIGN 4, roles)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from surfacelog.producers.errors import AppendRefused
from surfacelog.schemas.clock import now_ms
from surfacelog.schemas.event_types import INBOX_POSTED
from surfacelog.schemas.records import AppendRequest
from surfacelog.schemas.topics import WRITER_IDLE_SECONDS

if TYPE_CHECKING:
    from surfacelog.producers.append_client import AppendClient
    from surfacelog.schemas.json_value import JsonObject


class InboxPoster:
    """Posts to one session. The owner claims a post with a user/message that cites it."""

    def __init__(self, client: AppendClient, session_id: str) -> None:
        self._client = client
        self.session_id = session_id
        self._writer_id = client.writer_id(session_id)
        self._used_at = time.time()  # not monotonic: a machine that sleeps does not count it

    async def post(self, data: JsonObject) -> int:
        """Post something and return its seq in the session's log.

        Raises AppendRefused: `not_found` without such a session, `inbox.full` when 1,000 posts
        wait for the owner.
        """
        if time.time() - self._used_at > WRITER_IDLE_SECONDS:
            # A sequencer may have forgotten the old id, and would refuse its next number.
            self.close()
            self._writer_id = self._client.writer_id(self.session_id)
        self._used_at = time.time()
        event: JsonObject = {
            "type": INBOX_POSTED,
            "time": now_ms(),
            "data": data,
            "ignorable": True,
        }
        request = AppendRequest(
            self.session_id, self._writer_id, 0, 0, 0, role="contributor", items=(event,)
        )
        receipt = await (await self._client.send(request))
        if receipt.status == "refused":
            raise AppendRefused.of(receipt)
        assert receipt.first_seq is not None  # the post itself
        return receipt.first_seq

    def close(self) -> None:
        """Forget the writer id; the client stays open."""
        self._client.release(self.session_id, self._writer_id)
