"""The compactor as a writer: it numbers its appends and turns refusals into failures."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Final, Protocol

from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.schemas.records import AppendRequest, Expectation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surfacelog.schemas.compaction_outcome import FailureClass
    from surfacelog.schemas.records import Item, Receipt

RECEIPT_SECONDS: Final = 120.0
"""How long to wait for a receipt: longer than a sequencer or a broker takes to come back."""

_FAILURES: Final[dict[str | None, FailureClass]] = {
    "compaction.busy": "busy",
    "compaction.closed": "orphaned",
    "compaction.changed": "changed",
    "expectation": "changed",
}


class Sender(Protocol):
    """What `producers.append_client.AppendClient` does for a writer."""

    def send(self, request: AppendRequest) -> asyncio.Future[Receipt]:
        """Send an append, again until it is answered."""
        ...


class SessionAppends:
    """One compaction's appends to its session, one after the other, under a writer id of its own.

    A writer id per compaction means that nothing has to be remembered between two of them, and
    that no late receipt of one can be taken for another's.
    """

    def __init__(self, sender: Sender, session_id: str) -> None:
        self._sender = sender
        self._session_id = session_id
        self._writer_id = f"compactor.{uuid.uuid4().hex}"
        self._append_seq = 0

    async def append(self, items: Sequence[Item], *, generation: int | None = None) -> int:
        """Append all items or nothing, at `generation` if given; return the first one's seq.

        Raises CompactionFailedError with the class that a refusal means, or `persistence` when
        no receipt comes: the append may still land then.
        """
        receipt = await self._answer(
            AppendRequest(
                session_id=self._session_id,
                writer_id=self._writer_id,
                epoch=0,
                append_seq=self._append_seq,
                attempt=0,
                role="compactor",
                items=tuple(items),
                expect=None if generation is None else Expectation(generation=generation),
            )
        )
        if receipt.status == "refused":
            raise CompactionFailedError(
                _FAILURES.get(receipt.code, "commit"), f"{receipt.code}: {receipt.message}"
            )
        self._append_seq += 1
        if receipt.first_seq is None:
            raise CompactionFailedError("commit", "the receipt of an append names no seqs")
        return receipt.first_seq

    async def _answer(self, request: AppendRequest) -> Receipt:
        try:
            async with asyncio.timeout(RECEIPT_SECONDS):
                return await self._sender.send(request)
        except TimeoutError as error:
            raise CompactionFailedError(
                "persistence", f"no receipt within {RECEIPT_SECONDS:g} s", repeat=True
            ) from error
