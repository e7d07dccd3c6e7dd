"""What a writer has sent: how far each append has come, and which refusal is still to be told."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Literal

from surfacelog.producers.errors import AppendRefused, FlushTimeout

if TYPE_CHECKING:
    from surfacelog.producers.append_queue import SentAppend
    from surfacelog.schemas.records import Receipt

Level = Literal["accepted", "committed", "visible"]


class SentAppends:
    """The appends of one writer, in the order of sending.

    A refusal is told once, with everything that was refused `order` behind it: by whoever holds
    the append (`note_told`), or by the next `take_refusal`. `committed_seq` and `visible_seq` are
    the last seqs that are known to be there, -1 for none.
    """

    def __init__(self) -> None:
        self.committed_seq = self.visible_seq = -1
        self._unsettled: deque[SentAppend] = deque()
        self._told: set[SentAppend] = set()
        self._sent = self._committed = 0

    @property
    def unacknowledged(self) -> int:
        """Appends that have no receipt yet."""
        return sum(not sent.receipt.done() for sent in self._unsettled)

    def add(self, sent: SentAppend) -> None:
        """Take note of an append that is on its way."""
        self._sent += 1
        self._unsettled.append(sent)

    async def wait(self, level: Level) -> None:
        """Wait until all are at least `accepted`, or all have their receipts. See SentAppend."""
        for sent in tuple(self._unsettled):
            await asyncio.shield(sent.accepted if level == "accepted" else sent.receipt)

    def note_told(self, refused: SentAppend) -> bool:
        """Take note that a refusal is told elsewhere; False when it was told before."""
        if refused not in self._unsettled:
            return False
        self._told.add(refused)
        return True

    def take_refusal(self) -> AppendRefused | None:
        """Account for what is settled by now; return the first refusal that nobody was told of."""
        refusal: AppendRefused | None = None
        behind_told = False
        while self._unsettled and self._unsettled[0].receipt.done():
            sent = self._unsettled.popleft()
            receipt = sent.receipt.result()
            if receipt.status != "refused":
                self._committed += 1
                self.committed_seq = max(self.committed_seq, _last_seq(receipt))
            elif sent in self._told:
                self._told.discard(sent)
                behind_told = True
            elif not (behind_told and receipt.code == "order"):
                refusal = refusal or AppendRefused.of(receipt)
        return refusal

    def too_late(self, session_id: str, level: Level) -> FlushTimeout:
        """Return the error of a wait for `level` that was too short: it says what is known."""
        waiting = list(self._unsettled)
        in_log = [each for each in waiting if _is_committed(each)]
        seqs = [_last_seq(each.receipt.result()) for each in in_log]
        return FlushTimeout(
            session_id,
            level,
            sent=self._sent,
            accepted=self._sent - sum(not each.accepted.done() for each in waiting),
            committed=self._committed + len(in_log),
            committed_seq=max([self.committed_seq, *seqs]),
            visible_seq=self.visible_seq,
        )


def _is_committed(sent: SentAppend) -> bool:
    done = sent.receipt.done() and sent.receipt.exception() is None
    return done and sent.receipt.result().status != "refused"


def _last_seq(receipt: Receipt) -> int:
    return -1 if receipt.last_seq is None else receipt.last_seq
