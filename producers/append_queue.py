"""The appends of one session and one writer on their way: numbered, bounded, asked for again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace
from math import inf
from typing import TYPE_CHECKING, Final

import structlog

from surfacelog.producers.errors import AppendRefused, DeliveryError
from surfacelog.producers.in_flight import MAX_IN_FLIGHT, InFlight
from surfacelog.producers.room import Room
from surfacelog.schemas.topics import WRITER_IDLE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from surfacelog.producers.in_flight import Send
    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.errors import SurfacelogError
    from surfacelog.schemas.records import AppendRequest, Receipt

MAX_PATIENCE_DOUBLINGS: Final = 4

_log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class SentAppend:
    """An append on its way. Awaiting it gives its receipt, whatever that says.

    `accepted` is done when Kafka has the request, `receipt` when the sequencer's answer is known
    for certain. Both raise DeliveryError or WriterClosedError when that cannot be known.
    `replaced` counts the lone surrogates that became U+FFFD in it; `accepted_at` is the time
    (seconds since the epoch) of `accepted`.
    """

    request: AppendRequest
    accepted: asyncio.Future[None] = field(default_factory=asyncio.Future)
    receipt: asyncio.Future[Receipt] = field(default_factory=asyncio.Future)
    size: int = 0
    replaced: int = 0
    accepted_at: float = inf

    def __await__(self) -> Generator[None, None, Receipt]:
        return asyncio.shield(self.receipt).__await__()

    def settle(self, receipt: Receipt) -> None:
        """Say what became of it. What was sent is not kept: it is in the log, or nowhere."""
        self.request = replace(self.request, items=())
        if not self.accepted.done():
            self.accepted.set_result(None)
        if not self.receipt.done():
            self.receipt.set_result(receipt)

    def fail(self, error: SurfacelogError) -> None:
        """Say that nothing more will be known of it."""
        for future in (self.accepted, self.receipt):
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever awaits it is told; nobody has to


class AppendQueue:
    """Sends requests in order, at most 32 unanswered, and asks again for receipts that are late.

    `produce(payload, delivered)` puts a record on the session's request topic and calls
    `delivered` in the event loop. `patience` is how many seconds the oldest append waits for an
    answer, doubled with each question that stays unanswered.
    """

    def __init__(
        self,
        first: AppendRequest,
        codec: Codec,
        produce: Callable[[bytes, Callable[[SurfacelogError | None], None]], None],
        *,
        in_memory: Room,
        max_bytes: int,
        patience: float,
        first_attempt: int,
    ) -> None:
        self._codec = codec
        self._produce = produce
        self._in_memory = in_memory
        self._max_bytes = max_bytes
        self._patience = patience
        self._in_flight: InFlight[SentAppend] = InFlight(
            first.session_id, first.writer_id, first_attempt
        )
        self._room = Room(MAX_IN_FLIGHT)
        self._turn = asyncio.Lock()
        self._refusals = 0
        self._undelivered = 0
        self._unanswered_questions = 0
        self._timer: asyncio.TimerHandle | None = None
        self._broken: SurfacelogError | None = None

    async def send(self, request: AppendRequest) -> SentAppend:
        """Send an append when there is room for it; its number is the queue's to choose.

        One that waited while an append before it was refused is not sent: its receipt says
        `order`. Raises AppendRefused (`too_large`, nothing sent), EncodeError, and whatever broke
        the queue.
        """
        refusals = self._refusals
        async with self._turn:
            await self._room.wait()
            await self._in_memory.wait()
            if self._broken is not None:
                raise self._broken
            sent = SentAppend(request)
            if self._refusals != refusals:
                sent.settle(self._in_flight.refuse_unsent())
            else:
                self._send_new(sent)
            return sent

    def receive(self, receipt: Receipt) -> None:
        """Take a receipt from the stream, however late or repeated."""
        answers = self._in_flight.receive(receipt)
        for sent, answer in answers.settled:
            self._refusals += answer.status == "refused"
            self._room.give(1)
            self._in_memory.give(sent.size)
            sent.settle(answer)
        for send in answers.resend:
            self._repeat(send)
        if answers.settled:
            self._unanswered_questions = 0
            self._restart_timer()

    def fail(self, error: SurfacelogError) -> None:
        """End the queue: nothing more is sent, and what is unanswered fails with `error`."""
        if self._broken is not None:
            return
        self._broken = error
        self._stop_timer()
        for sent in self._in_flight.abandon():
            self._room.give(1)
            self._in_memory.give(sent.size)
            sent.fail(error)

    def _send_new(self, sent: SentAppend) -> None:
        queue, request = self._in_flight, sent.request
        replaced = self._codec.replaced
        numbered = replace(request, append_seq=queue.next_append_seq, attempt=queue.next_attempt)
        payload = self._codec.encode_request(numbered)
        sent.size, sent.replaced = len(payload), self._codec.replaced - replaced
        if sent.size > self._max_bytes:
            raise AppendRefused(
                request.session_id,
                queue.next_append_seq,
                "too_large",
                f"the append has {sent.size} bytes, {self._max_bytes} are allowed: split it",
            )
        if sent.replaced:
            _log.warning(
                "lone surrogates replaced", session=request.session_id, count=sent.replaced
            )
        queue.add(sent)
        self._room.take(1)
        self._in_memory.take(sent.size)
        self._put(sent, payload)

    def _repeat(self, send: Send[SentAppend]) -> None:
        request = replace(send.append.request, append_seq=send.append_seq, attempt=send.attempt)
        self._put(send.append, self._codec.encode_request(request))

    def _put(self, sent: SentAppend, payload: bytes) -> None:
        def delivered(error: SurfacelogError | None) -> None:
            self._undelivered -= 1
            if error is not None:
                self.fail(error)
                return
            if not sent.accepted.done():
                sent.accepted.set_result(None)
                sent.accepted_at = time.time()
            if self._timer is None:
                self._restart_timer()

        self._undelivered += 1
        self._produce(payload, delivered)

    def _restart_timer(self) -> None:
        self._stop_timer()
        if len(self._in_flight) and self._broken is None:
            doublings = min(self._unanswered_questions, MAX_PATIENCE_DOUBLINGS)
            delay = self._patience * 2**doublings
            self._timer = asyncio.get_running_loop().call_later(delay, self._ask_again)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask_again(self) -> None:
        """Send the oldest append once more; wait first if Kafka has not even taken the last."""
        oldest = self._in_flight.oldest
        if oldest is not None and time.time() - oldest.accepted_at > WRITER_IDLE_SECONDS:
            # A sequencer that has forgotten the writer would call refused what is in the log.
            self.fail(DeliveryError("an append had no answer for too long to ask for it again"))
            return
        send = None if self._undelivered else self._in_flight.resend_head()
        if send is not None:
            self._unanswered_questions += 1
            _log.info(
                "no receipt yet, asking again",
                session=send.append.request.session_id,
                append_seq=send.append_seq,
                attempt=send.attempt,
            )
            self._repeat(send)
        self._restart_timer()
