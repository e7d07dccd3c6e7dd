"""Which of a writer's appends are answered, and what to send again (DESIGN 4). Pure.

The sequencer reads the sends of one writer in the order in which they were sent. From that
follows what an answer proves:

- `committed` and `duplicate` are true whichever send they answer.
- A refusal is final only as the answer to the last send: an earlier send may have been refused
  and a later one admitted since.
- An append whose predecessor is refused for good cannot be in the log, since all its sends came
  before any other content of that number: it is refused `order` without waiting for an answer.
- An `order` refusal of an append that was sent before its predecessor's successful send only
  says that it came too early, so it is sent again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from surfacelog.schemas.records import Receipt

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_IN_FLIGHT: Final = 32
"""As many appends of a writer as the sequencer remembers with their seqs."""

AppendT = TypeVar("AppendT")


class Send(NamedTuple, Generic[AppendT]):
    """One record to put on the request topic."""

    append: AppendT
    append_seq: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Answers(Generic[AppendT]):
    """What a receipt settled, in the order of append_seq, and what must be sent again."""

    settled: tuple[tuple[AppendT, Receipt], ...] = ()
    resend: tuple[Send[AppendT], ...] = ()


@dataclass(slots=True)
class _Entry(Generic[AppendT]):
    """One unsettled append. `sends[i]` is the place of attempt `first_attempt + i` among all
    sends of the writer; `receipt` is the best answer so far."""

    append: AppendT
    append_seq: int
    first_attempt: int
    sends: list[int] = field(default_factory=list)
    receipt: Receipt | None = None

    @property
    def attempt(self) -> int:
        return self.first_attempt + len(self.sends) - 1

    def refused_order(self) -> bool:
        return self.receipt is not None and self.receipt.code == "order"


class InFlight(Generic[AppendT]):
    """The unsettled appends of one session and writer.

    `first_attempt` is where attempts begin: a writer id that an earlier process used needs a
    higher one than that process did, or old refusals would pass for answers.
    """

    def __init__(self, session_id: str, writer_id: str, first_attempt: int = 0) -> None:
        self._session_id = session_id
        self._writer_id = writer_id
        self._first_attempt = first_attempt
        self._entries: deque[_Entry[AppendT]] = deque()
        self._next_attempts: dict[int, int] = {}
        self._sends = 0
        self._committed_by = -1
        self.next_append_seq = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def next_attempt(self) -> int:
        """The attempt that the next new append begins with."""
        return self._next_attempts.get(self.next_append_seq, self._first_attempt)

    @property
    def oldest(self) -> AppendT | None:
        """The unsettled append that was sent first."""
        return self._entries[0].append if self._entries else None

    def add(self, append: AppendT) -> Send[AppendT]:
        """Number a new append. The caller keeps at most MAX_IN_FLIGHT unsettled."""
        entry = _Entry(append, self.next_append_seq, self.next_attempt)
        self._next_attempts.pop(self.next_append_seq, None)
        self.next_append_seq += 1
        self._entries.append(entry)
        return self._send(entry)

    def resend_head(self) -> Send[AppendT] | None:
        """Ask again for the oldest unsettled append; None when there is none."""
        return self._send(self._entries[0]) if self._entries else None

    def receive(self, receipt: Receipt) -> Answers[AppendT]:
        """Take a receipt, however late or repeated; return what is settled by it."""
        entry = self._find(receipt)
        if entry is None:
            return Answers()
        if receipt.status != "refused" or (
            receipt.attempt == entry.attempt and not _is_in_log(entry.receipt)
        ):
            entry.receipt = receipt
        resend = list(self._lost_before(entry, receipt))
        settled = []
        while self._entries and self._entries[0].receipt is not None:
            head, answer = self._entries[0], self._entries[0].receipt
            if _is_in_log(answer):
                settled.append((head.append, answer))
                self._committed_by = _place(head, answer)
                self._entries.popleft()
            elif head.refused_order() and head.sends[-1] < self._committed_by:
                resend += [self._send(each) for each in self._entries if each.refused_order()]
            else:
                settled += self._refuse_all(answer)
        return Answers(tuple(settled), tuple(resend))

    def abandon(self) -> list[AppendT]:
        """Forget every unsettled append and return them: nothing more will be known of them."""
        left = [entry.append for entry in self._entries]
        self._entries.clear()
        return left

    def _send(self, entry: _Entry[AppendT]) -> Send[AppendT]:
        entry.sends.append(self._sends)
        self._sends += 1
        if not _is_in_log(entry.receipt):
            entry.receipt = None  # what was refused is now asked anew
        return Send(entry.append, entry.append_seq, entry.attempt)

    def _find(self, receipt: Receipt) -> _Entry[AppendT] | None:
        if not self._entries:
            return None
        place = receipt.append_seq - self._entries[0].append_seq
        if not 0 <= place < len(self._entries):
            return None
        entry = self._entries[place]
        # A lower attempt belongs to other content of this number, refused before.
        return entry if entry.first_attempt <= receipt.attempt else None

    def _lost_before(self, entry: _Entry[AppendT], receipt: Receipt) -> Iterator[Send[AppendT]]:
        """Send again what was sent before a repeated send whose answer is here already.

        Answers come in the order of the sends unless they are lost or Redis was rewound, so the
        rest of a lost stretch need not wait for one deadline each.
        """
        if receipt.status == "duplicate" and receipt.attempt > entry.first_attempt:
            answered = _place(entry, receipt)
            for other in self._entries:
                if other.receipt is None and other.sends[-1] < answered:
                    yield self._send(other)

    def _refuse_all(self, refusal: Receipt) -> list[tuple[AppendT, Receipt]]:
        """Settle the head as refused and all behind it as `order`; their numbers are free again."""
        settled = [(self._entries[0].append, refusal)]
        self.next_append_seq = refusal.append_seq
        for entry in self._entries:
            self._next_attempts[entry.append_seq] = entry.attempt + 1
            if entry.append_seq != refusal.append_seq:
                settled.append((entry.append, self._behind(entry.append_seq, entry.attempt)))
        self._entries.clear()
        return settled

    def refuse_unsent(self) -> Receipt:
        """Return the answer to an append that waited for room behind one that was refused."""
        return self._behind(self.next_append_seq, self.next_attempt)

    def _behind(self, append_seq: int, attempt: int) -> Receipt:
        return Receipt(
            self._session_id,
            self._writer_id,
            append_seq,
            attempt,
            "refused",
            code="order",
            message="an append before it was refused, so it was not admitted either",
        )


def _is_in_log(receipt: Receipt | None) -> bool:
    return receipt is not None and receipt.status != "refused"


def _place(entry: _Entry[AppendT], receipt: Receipt) -> int:
    """Return the place of the send that a receipt answers; another process's counts as the last."""
    sent = receipt.attempt - entry.first_attempt
    return entry.sends[sent] if sent < len(entry.sends) else entry.sends[-1]
