"""Bad input from a raw producer: what is refused, how, and that the partition goes on.

The receipts are read from Kafka, and nothing of it may be in `events`.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from tests.live_session import (
    assistant,
    call,
    checkpoint,
    compaction_end,
    compaction_start,
    event,
    posted,
    prune,
    result,
    span,
    step_start,
    summary,
    turn_end,
    turn_start,
    user,
)
from tests.sequencing import Bus, Member, RawOwner, check_log, header_of, note, wait_until

from surfacelog.processors.sequencer.metrics import UNANSWERABLE
from surfacelog.producers.bootstrap import create_namespace, max_record_bytes
from surfacelog.schemas.records import AppendRequest, Expectation, Open
from surfacelog.schemas.refusals import CODES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from surfacelog.schemas.event_types import Role
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.records import Item, Receipt
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services


@pytest.fixture
def bus(settings: Settings) -> Bus:
    return Bus(settings)


@pytest.fixture
def member(bus: Bus) -> Iterator[Member]:
    member = Member(bus)
    member.wait_owns([0, 1, 2, 3])
    yield member
    member.stop()


@pytest.mark.usefixtures("member")
def test_records_that_name_nobody_are_counted_and_passed_over(bus: Bus) -> None:
    owner = RawOwner("s-1")
    bus.ask(owner.open())
    topic, home = bus.settings.topics.appends, bus.partition("s-1")
    good = bus.codec.encode_request(owner.append())
    owner.append_seq -= 1
    nobody = UNANSWERABLE._value.get()
    bad: list[bytes | None] = [
        None,
        b"",
        b"garbage",
        random.Random(5).randbytes(200),
        good[:12],  # cut within its header
        good[:1] + (99).to_bytes(4, "big") + good[5:],  # an id that no registry knows
        bus.codec.encode_receipt(bus.receipts()[0]),  # a record of another kind
    ]
    for value in bad:
        bus.send_raw(topic, value, b"s-1", home)
    assert bus.ask(replace(owner.append(), attempt=1)).status == "committed"
    assert UNANSWERABLE._value.get() - nobody == len(bad)
    assert len(bus.receipts()) == 2
    assert check_log(bus) == {"s-1": 1}


@pytest.mark.usefixtures("member")
def test_records_whose_header_can_be_read_are_answered(bus: Bus) -> None:
    owner = RawOwner("s-1")
    bus.ask(owner.open())
    home, topic = bus.partition("s-1"), bus.settings.topics.appends
    request = owner.append()
    owner.append_seq -= 1
    payload = bus.codec.encode_request(request)
    huge = replace(request, items=(note("x" * 9_000_000),))
    answered = [
        ("malformed", payload[:-3], b"s-1", home),
        ("malformed", payload + b"\0", b"s-1", home),
        ("session_mismatch", payload, b"s-2", home),
        ("session_mismatch", payload, None, home),
        ("too_large", bus.codec.encode_request(huge), b"s-1", home),
    ]
    for _, value, key, partition in answered:
        bus.send_raw(topic, value, key, partition)
    wait_until("all answers", lambda: len(bus.receipts()) == 1 + len(answered))
    refused = [r for r in bus.receipts() if r.status == "refused"]
    assert [r.code for r in refused] == [code for code, *_ in answered]
    assert {(r.session_id, r.writer_id, r.append_seq) for r in refused} == {("s-1", "agent", 1)}
    assert bus.ask(replace(owner.append(), attempt=1)).status == "committed"
    assert check_log(bus) == {"s-1": 1}


@pytest.mark.usefixtures("member")
def test_the_partition_of_crc32_is_refused(bus: Bus) -> None:
    """librdkafka's default partitioner puts most sessions elsewhere than every other client."""
    owner = next(RawOwner(f"s-{n}") for n in range(99) if bus.partition(f"s-{n}") != 0)
    opening = owner.open()
    bus.send_raw(
        bus.settings.topics.appends,
        bus.codec.encode_request(opening),
        owner.session_id.encode(),
        0,
    )
    assert bus.wait_receipt(opening).code == "partition"
    # Also when the session exists where it belongs.
    assert bus.ask(replace(opening, attempt=1)).status == "committed"
    append = owner.append()
    bus.send_raw(
        bus.settings.topics.appends, bus.codec.encode_request(append), owner.session_id.encode(), 0
    )
    assert bus.wait_receipt(append).code == "partition"
    assert check_log(bus) == {owner.session_id: 0}


@pytest.mark.usefixtures("member")
def test_every_admission_code_that_a_request_can_earn(bus: Bus) -> None:
    talk = Talk(bus)
    talk.refused("not_found", "peer", "contributor", posted())
    talk.refused("unsupported_version", "agent", "owner", opening={"version": 1})
    talk.committed("agent", "owner", opening={})
    talk.refused("exists", "file", "importer", user(), opening={})
    talk.refused("malformed", "agent", "owner", event("user/message", {"id": ""}))
    talk.refused("order", "agent", "owner", user(), append_seq=7)
    talk.refused("fenced", "agent", "owner", user(), epoch=9)
    talk.refused("role", "agent", "owner", user(), topic=bus.settings.topics.inbox)
    talk.refused("expectation", "agent", "owner", user(), expect=Expectation(next_seq=99))
    talk.refused("unsupported_type", "agent", "owner", event("nobody/knows", {}))
    talk.committed("agent", "owner", user("0"), user("1"))
    talk.refused("surface.op", "agent", "owner", user(op={"op": "replace"}))
    talk.refused("surface.span", "agent", "owner", user(op=span(9, 9), sourceEventSeqs=[9]))
    talk.refused("surface.sources", "agent", "owner", user(op=span(0, 1), sourceEventSeqs=[0]))
    talk.refused("turn", "agent", "owner", turn_end())
    talk.refused("step", "agent", "owner", turn_start(), step_start(2))
    talk.committed("agent", "owner", turn_start(), step_start(), assistant("c"))
    talk.refused("pairing", "agent", "owner", user())
    talk.committed("agent", "owner", call("c"), result("c"))  # the result is seq 6
    changed = result("c", error="OTHER", op=span(6, 6), sourceEventSeqs=[6])
    talk.refused("surface.tool_result", "worker", "compactor", prune(6), changed)
    talk.refused("compaction.invalid", "worker", "compactor", changed)
    talk.committed("worker", "compactor", compaction_start())
    talk.committed("worker", "compactor", compaction_end(error="cancelled"))
    talk.refused("compaction.closed", "worker", "compactor", compaction_end())
    talk.committed("worker", "compactor", compaction_start("c2"))
    talk.refused("compaction.busy", "other", "compactor", compaction_start("c3"))
    more = checkpoint([0, 1, 4, 6], "c2", cites=[-1])  # than the summary before it names
    talk.refused("compaction.changed", "worker", "compactor", summary([0, 1], "c2"), more)
    talk.committed("peer", "contributor", posted())  # seq 10
    talk.committed("agent", "owner", user(sourceEventSeqs=[10]))
    talk.refused("inbox.claimed", "agent", "owner", user(sourceEventSeqs=[10]))
    talk.committed("peer", "contributor", *([posted()] * 1000))
    talk.refused("inbox.full", "peer", "contributor", posted())
    talk.session_id = "s-2"
    talk.committed("file", "importer", user(), opening={}, loading=True)
    talk.refused("loading", "peer", "contributor", posted())
    by_the_tests_around_this_one = {"partition", "session_mismatch", "too_large"}
    assert talk.codes | by_the_tests_around_this_one == set(CODES)
    assert check_log(bus) == {"s-1": 1012, "s-2": 1}


def test_a_batch_over_the_limit_is_measured_before_it_is_produced(
    services: Settings, namespace: str
) -> None:
    """The end of a load carries the session header beside its events: both near the limit.

    Seen to fail: without measuring, the producer refuses the record and the sequencer ends, and
    so does the next one.
    """
    settings = services.model_copy(
        update={"namespace": namespace, "partitions": 1, "max_append_bytes": 3 * 1024 * 1024}
    )
    create_namespace(settings)
    bus = Bus(settings)
    member = Member(bus)
    member.wait_owns([0])
    noise = "".join(map(chr, random.Random(3).choices(range(0x4E00, 0x9000), k=900_000)))
    header: JsonObject = {**header_of("s-1"), "agentPreset": noise}
    load = AppendRequest("s-1", "i", 0, 0, 0, "importer", (note("a"),), Open(header, loading=True))
    receipt = bus.ask(load)
    assert receipt.status == "committed", receipt
    end = replace(load, append_seq=1, items=(note(noise),), open=Open(header_of("s-1")))
    assert len(bus.codec.encode_request(end)) < settings.max_append_bytes
    refused = bus.ask(end)
    assert refused.code == "too_large"
    # As much as just fits goes through, framing and all.
    fits = max_record_bytes(settings) - 4096 - len(bus.codec.encode_request(load))
    text = noise[: fits // 3 - 400]
    assert bus.ask(replace(end, attempt=1, items=(note(text),))).status == "committed"
    member.stop()
    assert check_log(bus) == {"s-1": 2}


def test_a_defect_in_admission_costs_one_record(
    bus: Bus, member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no rule foresees aborts the transaction once; the record is refused unseen then."""
    owner = RawOwner("s-1")
    bus.ask(owner.open())
    state = member.sequencer.partitions[bus.partition("s-1")].sessions.get("s-1")
    assert state is not None
    apply = type(state).apply

    def defective(self: object, batch: object) -> bool:
        if "poison" in str(batch):
            apply(state.copy(), batch)  # type: ignore[arg-type]  # half of the work
            raise ZeroDivisionError("a defect")
        return apply(self, batch)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(type(state), "apply", defective)
    before, poison = owner.append(note("a")), owner.append(note("poison"))
    bus.send(before)
    bus.send(poison)
    assert bus.wait_receipt(before).first_seq == 0
    refused = bus.wait_receipt(poison)
    assert (refused.status, refused.code) == ("refused", "malformed")
    assert "sequencer failed" in (refused.message or "")
    assert bus.ask(replace(poison, attempt=1, items=(note("b"),))).first_seq == 1
    assert check_log(bus) == {"s-1": 2}


@dataclass
class Talk:
    """Asks one request after the other, of several writers, and notes the codes."""

    bus: Bus
    session_id: str = "s-1"
    codes: set[str] = field(default_factory=set)
    _sent: Counter[tuple[str, str]] = field(default_factory=Counter)
    _attempts: Iterator[int] = field(default_factory=count)

    def committed(self, writer: str, role: Role, *items: Item, **more: Any) -> None:
        assert self._ask(writer, role, items, **more).status == "committed"
        self._sent[self.session_id, writer] += 1

    def refused(self, code: str, writer: str, role: Role, *items: Item, **more: Any) -> None:
        receipt = self._ask(writer, role, items, **more)
        assert (receipt.status, receipt.code) == ("refused", code), receipt
        self.codes.add(code)

    def _ask(
        self,
        writer: str,
        role: Role,
        items: tuple[Item, ...],
        *,
        opening: JsonObject | None = None,
        loading: bool = False,
        topic: str | None = None,
        **more: Any,
    ) -> Receipt:
        request = AppendRequest(
            self.session_id,
            writer,
            1 if role == "owner" and opening is None else 0,
            self._sent[self.session_id, writer],
            next(self._attempts),
            role,
            items,
            None if opening is None else Open(header_of(self.session_id) | opening, loading),
        )
        return self.bus.ask(replace(request, **more), topic=topic)
