"""An append client that remembers what it sent, so that the log can be compared with it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from surfacelog.producers.append_client import AppendClient
from surfacelog.schemas.codec import unpack_items

if TYPE_CHECKING:
    from surfacelog.producers.append_queue import SentAppend
    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import AppendRequest
    from surfacelog.schemas.settings import Settings


class NotingClient(AppendClient):
    """Notes every append beside its receipt."""

    def __init__(self, settings: Settings, codec: Codec) -> None:
        super().__init__(settings, codec)
        self._notes: defaultdict[str, list[tuple[AppendRequest, SentAppend]]] = defaultdict(list)

    async def send(self, request: AppendRequest, *, first_attempt: int = 0) -> SentAppend:
        """Send an append as AppendClient does, and note it."""
        sent = await super().send(request, first_attempt=first_attempt)
        self._notes[request.session_id].append((request, sent))
        return sent

    def count(self, session_id: str) -> int:
        """Return how many events were sent to a session so far."""
        return sum(len(request.items) for request, _ in self._notes[session_id])

    def events(self, session_id: str) -> list[JsonObject]:
        """Return the events that a session was sent, with the seqs that their receipts name.

        To be called when all have their receipts.
        """
        events: list[JsonObject] = []
        for request, sent in self._notes[session_id]:
            first_seq = sent.receipt.result().first_seq
            if first_seq is not None:  # an open has no events, and a refused append is nowhere
                events += unpack_items(request.items, first_seq)
        return events
