"""An append on its way, as its writer's caller holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.producers.errors import AppendRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from surfacelog.producers.append_queue import SentAppend


class AppendHandle:
    """An append on its way."""

    def __init__(self, sent: SentAppend, tell: Callable[[SentAppend], None]) -> None:
        self._sent = sent
        self._tell = tell

    @property
    def replaced(self) -> int:
        """How many lone surrogates became U+FFFD, because UTF-8 cannot carry them."""
        return self._sent.replaced

    async def committed(self) -> range:
        """Wait until the append is in the log and return its seqs. Raises AppendRefused."""
        receipt = await self._sent
        if receipt.status == "refused":
            self._tell(self._sent)
            raise AppendRefused.of(receipt)
        if receipt.first_seq is None or receipt.last_seq is None:
            return range(0)
        return range(receipt.first_seq, receipt.last_seq + 1)
