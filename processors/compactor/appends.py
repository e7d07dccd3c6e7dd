"""The compactor as a writer: it numbers its appends and turns refusals into failures."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from surfacelog.processors.compactor.failures import CompactionFailedError
from surfacelog.producers.errors import AppendRefused
from surfacelog.schemas.records import AppendRequest, Expectation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence
    from typing import Self

    from surfacelog.schemas.compaction_outcome import FailureClass
    from surfacelog.schemas.event_types import Role
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
    """What `producers.append_client.AppendClient` does: it numbers appends and gets receipts."""

    def writer_id(self, session_id: str) -> str:
        """Return a writer id that is new to the session."""
        ...

    async def send(self, request: AppendRequest) -> Awaitable[Receipt]:
        """Send an append, again and again until it is answered; awaiting the result waits."""
        ...

    def release(self, session_id: str, writer_id: str) -> None:
        """Forget a writer."""
        ...


class SessionAppends:
    """Appends about compaction to one session, one after the other, as a writer of its own.

    A context manager: the writer is forgotten at its end.
    """

    def __init__(self, sender: Sender, session_id: str, role: Role = "compactor") -> None:
        self._sender = sender
        self._role = role
        self._session_id = session_id
        self._writer_id = sender.writer_id(session_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sender.release(self._session_id, self._writer_id)

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
                append_seq=0,
                attempt=0,
                role=self._role,
                items=tuple(items),
                expect=None if generation is None else Expectation(generation=generation),
            )
        )
        if receipt.status == "refused":
            raise _refused(receipt.code, receipt.message)
        if receipt.first_seq is None:
            raise CompactionFailedError("commit", "the receipt of an append names no seqs")
        return receipt.first_seq

    async def _answer(self, request: AppendRequest) -> Receipt:
        try:
            async with asyncio.timeout(RECEIPT_SECONDS):
                return await (await self._sender.send(request))
        except AppendRefused as error:
            raise _refused(error.refusal, error.message) from error
        except TimeoutError as error:
            raise CompactionFailedError(
                "persistence", f"no receipt within {RECEIPT_SECONDS:g} s", repeat=True
            ) from error


def _refused(code: str | None, message: str | None) -> CompactionFailedError:
    return CompactionFailedError(_FAILURES.get(code, "commit"), f"{code}: {message}")
