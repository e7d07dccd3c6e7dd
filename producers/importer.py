"""Importing JSONL session logs: whole or not at all, once however often it is tried (DESIGN 8)."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from surfacelog.producers.errors import AppendRefused, FlushTimeout
from surfacelog.producers.recorded_log import plan_appends
from surfacelog.projections.log_reader import LogReader, SessionIndex
from surfacelog.projections.reader import SurfaceReader
from surfacelog.schemas.clock import now_ms
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.json_text import dumps
from surfacelog.schemas.records import event_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from surfacelog.producers.append_client import AppendClient
    from surfacelog.producers.append_queue import SentAppend
    from surfacelog.producers.recorded_log import RecordedLog
    from surfacelog.schemas.records import AppendRequest

ANSWER_SECONDS: Final = 120.0
"""How long one append may wait for its receipt: longer than a sequencer takes to come back."""

AHEAD: Final = 32


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a file: `duplicate` when its events were in the log already.

    `first_seq` and `last_seq` are inclusive, None for a log without events.
    """

    session_id: str
    events: int
    status: Literal["imported", "duplicate"]
    warnings: tuple[str, ...]

    @property
    def first_seq(self) -> int | None:
        """The first seq of the events."""
        return 0 if self.events else None

    @property
    def last_seq(self) -> int | None:
        """The last seq of the events."""
        return self.events - 1 if self.events else None


class Importer:
    """Writes recorded logs through a started client."""

    def __init__(self, client: AppendClient) -> None:
        self._client = client
        self._log = LogReader(client.settings, client.codec, SessionIndex(client.settings))

    async def write(
        self, log: RecordedLog, progress: Callable[[int], object] = lambda _events: None
    ) -> Imported:
        """Write a log; return when it is visible.

        `progress` is told of every committed append how many events it has. The same log again
        is a duplicate, as is one whose events the session begins with; a killed import is
        resumed. Raises CorruptLogError before anything is written, AdmissionError `exists` when
        the session holds something else, AppendRefused, FlushTimeout.
        """
        appends = await asyncio.to_thread(self._plan, log)
        try:
            is_new = await self._send(appends, progress)
        finally:
            self._client.release(log.session_id, log.writer_id)
        warnings = log.warnings
        if not is_new:
            warnings += await asyncio.to_thread(self._compare, log)
        await self._wait_visible(log)
        status: Literal["imported", "duplicate"] = "imported" if is_new else "duplicate"
        return Imported(log.session_id, len(log.events), status, warnings)

    def _plan(self, log: RecordedLog) -> list[AppendRequest]:
        appends = list(plan_appends(log))
        limit = self._client.settings.max_append_bytes
        for append in appends:
            size = len(self._client.codec.encode_request(append))
            if size > limit:
                raise AdmissionError(
                    "too_large", f"an event makes an append of {size} bytes, {limit} are allowed"
                )
        return appends

    async def _send(self, appends: list[AppendRequest], progress: Callable[[int], object]) -> bool:
        """Send all appends; return whether any of them was new to the log."""
        first_attempt = now_ms()  # above those of an import that was killed
        waiting: deque[tuple[SentAppend, int]] = deque()
        is_new = False
        for number, append in enumerate(appends):
            sent = await self._client.send(append, first_attempt=first_attempt)
            waiting.append((sent, event_count(append.items)))
            # The first one tells whether the session is ours to write.
            while waiting and (number == 0 or len(waiting) >= AHEAD or append is appends[-1]):
                sent, events = waiting.popleft()
                try:
                    is_new |= await self._is_new(sent)
                except AppendRefused as refusal:
                    if number == 0 and refusal.refusal in ("exists", "order"):
                        return False
                    raise
                progress(events)
        return is_new

    async def _is_new(self, sent: SentAppend) -> bool:
        request = sent.request
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                receipt = await sent
        except TimeoutError as error:
            raise FlushTimeout(
                request.session_id,
                "committed",
                sent=1,
                accepted=int(sent.accepted.done()),
                committed=0,
                committed_seq=-1,
                visible_seq=-1,
            ) from error
        if receipt.status == "refused":
            raise AppendRefused.of(receipt)
        return receipt.status == "committed"

    def _compare(self, log: RecordedLog) -> tuple[str, ...]:
        """Return a duplicate's warnings; raise `exists` when the session holds other events."""
        present = 0
        events = iter(log.events)
        for found in self._log.events(log.session_id):
            wanted = next(events, None)
            if wanted is None:
                return ("the session goes on behind the events of this file",)
            if dumps(found) != dumps(wanted):
                raise _exists(log, f"its event at seq {present} is another one")
            present += 1
        if present < len(log.events):
            raise _exists(log, f"it ends before seq {present}")
        return ()

    async def _wait_visible(self, log: RecordedLog) -> None:
        async with await SurfaceReader.connect(self._client.settings) as reader:
            await reader.wait_visible(log.session_id, len(log.events) - 1, ANSWER_SECONDS)


def _exists(log: RecordedLog, reason: str) -> AdmissionError:
    return AdmissionError(
        "exists",
        f"the session {log.session_id} exists and {reason}: import under another id",
    )
