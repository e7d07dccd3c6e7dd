"""kill -9 at every step of a transaction, and a process that stands still for too long."""

from __future__ import annotations

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient
from tests.processes import Spawned, Spawner
from tests.sequencing import Bus, RawOwner, check_log, note, wait_until

from surfacelog.producers.bootstrap import create_namespace
from surfacelog.schemas.registry import connect_codec

if TYPE_CHECKING:
    from pathlib import Path

    from surfacelog.schemas.settings import Settings

pytestmark = [pytest.mark.services, pytest.mark.chaos]

TUNED = """
import os, signal, sys, threading
from surfacelog.processors.cli.logs import configure_logs
from surfacelog.processors.sequencer import run_sequencer
from surfacelog.processors.sequencer.transactions import Transactions
from surfacelog.processors.sequencer.tuning import Tuning
from surfacelog.schemas.settings import Settings

if os.environ.get("STAND_STILL"):
    commit = Transactions.commit
    def stand_still(self, offsets, membership):
        self._producer.flush(10)
        Transactions.commit = commit
        print("standing still", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        commit(self, offsets, membership)
    Transactions.commit = stand_still

configure_logs()
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
tuning = Tuning(
    tail_appends=int(os.environ.get("TAIL_APPENDS", 20)),
    session_timeout=6_000,
)
sys.exit(run_sequencer(Settings(), stop, tuning))
"""


@pytest.fixture
def bus(settings: Settings) -> Bus:
    return Bus(settings, connect_codec(settings))


@pytest.fixture
def script(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("script") / "tuned_sequencer.py"
    path.write_text(TUNED)
    return str(path)


POINTS = (
    "after_begin:3",
    "after_produce:3",
    "after_send_offsets:3",
    "before_commit:3",
    "after_commit:3",
    "during_snapshot:1",
    "before_marker:0",
)


def test_a_killed_sequencer_loses_and_doubles_nothing(
    services: Settings, namespace: str, tmp_path: Path, script: str
) -> None:
    """Each point in a namespace of its own, three at once: they mostly wait for the dead."""
    settings = [
        services.model_copy(
            update={"namespace": f"{namespace}-{n}", "partitions": 2, "instance": "chaos"}
        )
        for n in range(len(POINTS))
    ]
    spawners = [Spawner(each, tmp_path) for each in settings]
    try:
        with ThreadPoolExecutor(3) as pool:
            runs = list(pool.map(partial(_kill_and_restart, script), POINTS, settings, spawners))
    finally:
        admin = AdminClient({"bootstrap.servers": services.kafka})
        for each, spawner in zip(settings, spawners, strict=True):
            spawner.kill_all()
            admin.delete_topics(list(each.topics.all))
    assert len(runs) == len(POINTS)


def _kill_and_restart(script: str, point: str, settings: Settings, spawn: Spawner) -> None:
    create_namespace(settings)
    bus = Bus(settings, connect_codec(settings))
    doomed = spawn(script, SURFACELOG_FAILPOINT=point)
    owners = [RawOwner(f"s-{n}") for n in range(5)]
    sent = [owner.open() for owner in owners]
    for request in sent:
        bus.send(request)
    while doomed.process.poll() is None and len(sent) < 1000:
        sent += [owner.append(note(str(len(sent)))) for owner in owners]
        for request in sent[-len(owners) :]:
            bus.send(request)
    assert doomed.wait_exit() == -signal.SIGKILL, f"{point} was not reached"
    for owner in owners:
        sent.append(owner.append(note("behind the kill")))
        bus.send(sent[-1])
    successor = spawn(script)
    wait_until(f"all receipts after {point}", lambda: len(bus.receipts()) >= len(sent))
    assert successor.terminate() == 0
    assert {receipt.status for receipt in bus.receipts()} == {"committed"}, point
    assert check_log(bus) == {owner.session_id: owner.append_seq - 1 for owner in owners}, point


def test_a_process_that_stood_still_writes_nothing_and_exits(
    bus: Bus, spawn: Spawner, script: str
) -> None:
    """SIGSTOP inside a transaction for 20 s: longer than its timeout and that of the session.

    The broker aborts the transaction, another process takes the partitions over, and the one
    that wakes up is fenced: it exits, non-zero.
    """
    owner = RawOwner("s-1")
    still = spawn(script, STAND_STILL="1")
    first = owner.open()
    bus.send(first)
    still.wait_line("standing still")
    wakes = time.monotonic() + 20
    other = spawn(script)
    append = owner.append(note("a"))
    bus.send(append)
    assert bus.wait_receipt(first).status == "committed"
    assert bus.wait_receipt(append).first_seq == 0
    time.sleep(max(0.0, wakes - time.monotonic()))
    still.send(signal.SIGCONT)
    assert still.wait_exit() == 1
    assert bus.ask(replace(append, attempt=1)).status == "duplicate"
    assert other.terminate() == 0
    assert check_log(bus) == {"s-1": 1}


def test_a_process_that_stood_still_between_transactions_goes_on(
    bus: Bus, spawn: Spawner, script: str
) -> None:
    """Without an open transaction nothing is lost but the membership: it restores and goes on."""
    owner = RawOwner("s-1")
    still = spawn(script)
    assert bus.ask(owner.open()).status == "committed"
    still.send(signal.SIGSTOP)
    other = spawn(script)
    assert bus.ask(owner.append(note("a"))).status == "committed"
    still.send(signal.SIGCONT)
    _wait_shared(still, other)
    assert bus.ask(owner.append(note("b"))).first_seq == 1
    assert still.terminate() == 0
    assert other.terminate() == 0
    assert check_log(bus) == {"s-1": 2}


def _wait_shared(one: Spawned, another: Spawned) -> None:
    for member in (one, another):
        member.wait_line('"event": "ready"', count=2)
