"""A writer whose receipts are lost, late or overtaken, on a real broker with a real sequencer.

The test stands where the projector does otherwise: between the receipts' topic and the stream in
Redis, and passes on what it likes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.postman import Postman
from tests.sequencing import Bus, Member, check_log, note

from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.errors import AppendRefused, WriterClosedError
from surfacelog.producers.in_flight import MAX_IN_FLIGHT
from surfacelog.schemas.records import AppendRequest, Expectation, Open
from surfacelog.schemas.session_header import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from surfacelog.producers.append_queue import SentAppend
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

HEADER: JsonObject = {"version": FORMAT_VERSION, "id": "s", "createdAt": 0}
PATIENCE = 0.4


class Owner:
    """An owner of the session `s` on a client of its own."""

    def __init__(self, client: AppendClient) -> None:
        self._client = client
        self._writer_id = client.writer_id("s")

    async def open(self) -> SentAppend:
        return await self._client.send(self._request(open=Open(HEADER)))

    async def append(self, text: str, **more: object) -> SentAppend:
        return await self._client.send(self._request(note(text), epoch=1, **more))

    def _request(self, *items: JsonObject, epoch: int = 0, **more: object) -> AppendRequest:
        return AppendRequest("s", self._writer_id, epoch, 0, 0, "owner", items, **more)  # type: ignore[arg-type]  # open and expect, as the test gives them


@pytest.fixture
def bus(settings: Settings) -> Bus:
    return Bus(settings)


@pytest.fixture
def sequencer(bus: Bus) -> Iterator[Member]:
    member = Member(bus)
    member.wait_owns([0, 1, 2, 3])
    yield member
    member.stop()


@pytest.fixture
async def postman(bus: Bus) -> AsyncIterator[Postman]:
    postman = Postman(bus)
    yield postman
    await postman.close()


@pytest.fixture
async def client(bus: Bus) -> AsyncIterator[AppendClient]:
    async with AppendClient(bus.settings, bus.codec, patience=PATIENCE) as client:
        yield client


@pytest.mark.usefixtures("sequencer")
async def test_lost_receipts_are_asked_for_and_told_as_they_are(
    client: AppendClient, bus: Bus, postman: Postman
) -> None:
    owner = Owner(client)
    appends = [await owner.open(), *[await owner.append(f"a{n}") for n in range(5)]]
    await postman.collect(6)  # lost
    (first,) = await postman.collect(1)
    assert (first.append_seq, first.attempt, first.status) == (0, 1, "duplicate")
    await postman.deliver(first)
    rest = await postman.collect(5)  # asked for at once, not one deadline each
    assert [(r.append_seq, r.attempt) for r in rest] == [(n, 1) for n in range(1, 6)]
    await postman.deliver(*rest)
    receipts = [await append for append in appends]
    assert [r.status for r in receipts] == ["duplicate"] * 6
    assert [r.first_seq for r in receipts] == [None, 0, 1, 2, 3, 4]
    assert check_log(bus) == {"s": 5}


@pytest.mark.usefixtures("sequencer")
async def test_receipts_that_come_late_or_again_change_nothing(
    client: AppendClient, bus: Bus, postman: Postman
) -> None:
    owner = Owner(client)
    opened = await owner.open()
    late = await postman.collect(1)
    again = await postman.collect(1)
    await postman.deliver(*again, *late, *again)
    assert (await opened).status == "duplicate"
    append = await owner.append("a")
    await postman.deliver(*late)
    await postman.pass_on(1)
    assert (await append).first_seq == 0
    assert check_log(bus) == {"s": 1}


@pytest.mark.usefixtures("sequencer")
async def test_a_refusal_that_a_resend_overtook_is_not_told(
    client: AppendClient, bus: Bus, postman: Postman
) -> None:
    """The session has to be one event longer before the append fits; a guest makes it so."""
    owner = Owner(client)
    await owner.open()
    await postman.pass_on(1)
    early = await owner.append("early", expect=Expectation(next_seq=1))
    behind = await owner.append("behind")
    refusals = await postman.collect(2)
    assert [r.code for r in refusals] == ["expectation", "order"]
    post: JsonObject = {
        "type": "surfacelog/inbox-posted",
        "time": 1,
        "data": {"text": "hello"},
        "ignorable": True,
    }
    bus.send(AppendRequest("s", "guest", 0, 0, 0, "contributor", (post,)))
    receipts = await postman.collect(2)
    while not any(r.status == "committed" and r.append_seq == 1 for r in receipts):
        receipts += await postman.collect(1)
    await postman.deliver(*refusals)
    async with postman.passing_everything_on():
        await postman.deliver(*receipts)
        assert (await early).first_seq == 1
        assert (await behind).first_seq == 2
    assert check_log(bus) == {"s": 3}


@pytest.mark.usefixtures("sequencer")
async def test_a_refusal_takes_with_it_what_is_behind_and_the_number_is_used_again(
    client: AppendClient, bus: Bus, postman: Postman
) -> None:
    owner = Owner(client)
    await owner.open()
    refused = await owner.append("wrong", expect=Expectation(next_seq=99))
    behind = [await owner.append(f"b{n}") for n in range(MAX_IN_FLIGHT - 2)]
    unsent = [asyncio.create_task(owner.append(f"u{n}")) for n in range(5)]
    async with postman.passing_everything_on():
        assert (await refused).code == "expectation"
        behind += [await task for task in unsent]
        assert {(await append).code for append in behind} == {"order"}
        assert (await (await owner.append("right"))).first_seq == 0
    assert check_log(bus) == {"s": 1}


async def test_writers_wait_for_room_and_nothing_is_dropped(
    client: AppendClient, bus: Bus, postman: Postman
) -> None:
    owner = Owner(client)
    await owner.open()
    sent = [await owner.append(f"a{n}") for n in range(MAX_IN_FLIGHT - 1)]
    waiting = [asyncio.create_task(owner.append(f"w{n}")) for n in range(50)]
    await sent[-1].accepted
    assert not any(task.done() for task in waiting)
    member = Member(bus)
    async with postman.passing_everything_on():
        appends = [*sent, *[await task for task in waiting]]
        seqs = [(await append).first_seq for append in appends]
    assert seqs == list(range(MAX_IN_FLIGHT - 1 + 50))
    member.stop()
    assert check_log(bus) == {"s": len(seqs)}


@pytest.mark.usefixtures("sequencer")
async def test_what_is_too_large_is_refused_before_it_is_sent(
    client: AppendClient, bus: Bus, postman: Postman
) -> None:
    owner = Owner(client)
    await owner.open()
    with pytest.raises(AppendRefused) as refused:
        await owner.append("x" * bus.settings.max_append_bytes)
    assert refused.value.code == "too_large"
    append = await owner.append("small")
    await postman.pass_on(2)
    assert (await append).first_seq == 0


async def test_a_client_that_closes_says_so_to_who_waits(client: AppendClient) -> None:
    opened = await Owner(client).open()
    await client.close()
    with pytest.raises(WriterClosedError):
        await opened


@pytest.mark.usefixtures("sequencer")
async def test_a_released_writer_is_followed_no_longer(
    client: AppendClient, postman: Postman
) -> None:
    """Seen to fail: `wait_for` of Python 3.11 swallowed the cancel, and streams went on for ever.

    It comes in the moment in which the receipt has been delivered and the next read is sent.
    """
    owner = Owner(client)
    opened = await owner.open()
    (following,) = client._streams.values()
    await postman.pass_on(1)
    await opened
    client.release("s", owner._writer_id)
    ended, _ = await asyncio.wait([following], timeout=5)
    assert ended
