"""However receipts are lost, delayed, reordered or repeated, the writer is told the truth."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from surfacelog.producers.in_flight import MAX_IN_FLIGHT, InFlight, Send
from surfacelog.schemas.records import Receipt


@dataclass
class Sequencer:
    """The rule of append_seq alone: what else refuses an append is drawn at random."""

    log: list[str] = field(default_factory=list)

    def answer(self, send: Send[str], *, admissible: bool) -> Receipt:
        def receipt(status: str, code: str | None = None) -> Receipt:
            return Receipt("s", "w", send.append_seq, send.attempt, status, code=code)  # type: ignore[arg-type]  # one of the three

        if send.append_seq < len(self.log):
            same = self.log[send.append_seq] == send.append
            return receipt("duplicate") if same else receipt("refused", "order")
        if send.append_seq > len(self.log):
            return receipt("refused", "order")
        if not admissible:
            return receipt("refused", "turn")
        self.log.append(send.append)
        return receipt("committed")


@dataclass
class World:
    """A writer, the request topic, the sequencer and receipts under way."""

    writer: InFlight[str] = field(default_factory=lambda: InFlight("s", "w"))
    sequencer: Sequencer = field(default_factory=Sequencer)
    topic: list[Send[str]] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    told: dict[str, Receipt] = field(default_factory=dict)
    appends: int = 0

    def append(self) -> None:
        if len(self.writer) < MAX_IN_FLIGHT:
            self.topic.append(self.writer.add(f"append {self.appends}"))
            self.appends += 1

    def ask_again(self) -> None:
        again = self.writer.resend_head()
        if again is not None:
            self.topic.append(again)

    def sequence(self, *, admissible: bool) -> None:
        if self.topic:
            send = self.topic.pop(0)
            self.receipts.append(self.sequencer.answer(send, admissible=admissible))

    def deliver(self, place: int, *, keep: bool) -> None:
        if self.receipts:
            index = place % len(self.receipts)
            receipt = self.receipts[index]
            if not keep:
                del self.receipts[index]
            answers = self.writer.receive(receipt)
            self.topic += answers.resend
            for append, answer in answers.settled:
                assert append not in self.told
                self.told[append] = answer
                assert (append in self.sequencer.log) == (answer.status != "refused")

    def lose(self, place: int) -> None:
        if self.receipts:
            del self.receipts[place % len(self.receipts)]

    def settle(self) -> None:
        """Let everything arrive: a finite number of questions must settle every append."""
        for _ in range(4 * MAX_IN_FLIGHT):
            while self.topic or self.receipts:
                self.sequence(admissible=True)
                self.deliver(0, keep=False)
            if not len(self.writer):
                return
            self.ask_again()
        raise AssertionError("not settled")


steps = st.one_of(
    st.tuples(st.just("append")),
    st.tuples(st.just("sequence"), st.booleans()),
    st.tuples(st.just("deliver"), st.integers(0, 50), st.booleans()),
    st.tuples(st.just("lose"), st.integers(0, 50)),
    st.tuples(st.just("ask")),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(steps, max_size=120))
def test_the_writer_is_told_what_the_log_holds(program: list[tuple[object, ...]]) -> None:
    world = World()
    for step in program:
        match step:
            case ("append",):
                world.append()
            case ("sequence", bool(admissible)):
                world.sequence(admissible=admissible)
            case ("deliver", int(place), bool(keep)):
                world.deliver(place, keep=keep)
            case ("lose", int(place)):
                world.lose(place)
            case ("ask",):
                world.ask_again()
    world.settle()
    assert len(world.told) == world.appends
    committed = [append for append, answer in world.told.items() if answer.status != "refused"]
    assert committed == world.sequencer.log


def test_a_refusal_overtaken_by_an_admitted_resend_does_not_count() -> None:
    world = World()
    world.append()
    world.append()
    world.sequence(admissible=False)
    world.sequence(admissible=True)
    world.ask_again()
    world.sequence(admissible=True)
    for _ in range(2):
        world.deliver(0, keep=False)
    assert not world.told
    world.settle()
    assert [answer.status for answer in world.told.values()] == ["committed", "committed"]


def test_what_is_behind_a_refusal_is_refused_at_once_and_numbers_go_on_from_it() -> None:
    world = World()
    for _ in range(3):
        world.append()
    world.sequence(admissible=False)
    world.deliver(0, keep=False)
    assert [answer.code for answer in world.told.values()] == ["turn", "order", "order"]
    again = world.writer.add("other content")
    assert (again.append_seq, again.attempt) == (0, 1)


def test_a_lost_stretch_of_receipts_is_asked_for_at_once() -> None:
    world = World()
    for _ in range(5):
        world.append()
        world.sequence(admissible=True)
    world.receipts.clear()
    world.ask_again()
    world.sequence(admissible=True)
    world.deliver(0, keep=False)
    assert [send.append_seq for send in world.topic] == [1, 2, 3, 4]
