"""Random, well-formed session logs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.schemas.records import ChunkRun, Item
from tests.live_session import (
    assistant,
    call,
    event,
    posted,
    result,
    run,
    span,
    step_end,
    step_start,
    turn_end,
    turn_start,
    user,
)

if TYPE_CHECKING:
    import random

    from surfacelog.schemas.json_value import JsonObject


def request_header(system: str) -> JsonObject:
    config: JsonObject = {"provider": "p", "model": "m"}
    header: JsonObject = {"config": config, "system": system, "tools": []}
    return event("request/header", {"header": header, "reason": "change"})


def stream_of(rng: random.Random) -> list[Item]:
    return [run(*["ab" * rng.randint(1, 9) for _ in range(rng.randint(1, 5))]) for _ in range(2)]


class LogMaker:
    """Makes a random, well-formed session log, item by item, with the seqs it will have."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.items: list[Item] = []
        self.next_seq = 0
        self.surface: list[int] = []
        self.turn = 0

    def add(self, item: Item) -> int:
        seq = self.next_seq
        self.items.append(item)
        self.next_seq += len(item) if isinstance(item, ChunkRun) else 1
        if not isinstance(item, ChunkRun) and "surfaceOp" in item:
            op = item["surfaceOp"]
            if isinstance(op, dict):
                first, last = self.surface.index(op["start"]), self.surface.index(op["end"])  # type: ignore[arg-type]
                self.surface[first : last + 1] = [seq]
            else:
                self.surface.append(seq)
        return seq

    def add_turn(self) -> None:
        self.turn += 1
        self.add(turn_start(self.turn))
        self.add(user("question " * self.rng.randint(1, 20)))
        if self.rng.random() < 0.5:
            self.add(request_header("s" * self.rng.randint(0, 40)))
        for step in range(1, self.rng.randint(2, 4)):
            self.add_step(step)
        self.add(turn_end(self.turn))
        if self.rng.random() < 0.5:
            self.add(posted())
        if self.rng.random() < 0.4:
            self.replace_some()

    def add_step(self, step: int) -> None:
        self.add(step_start(step, self.turn))
        chunks: list[int] = []
        for item in stream_of(self.rng):
            assert isinstance(item, ChunkRun)
            made = ChunkRun(item.time, self.turn, step, 0, item.kind, item.dt, item.deltas)
            first = self.add(made)
            chunks += range(first, first + len(made))
        usage = {"inputTokens": self.rng.randint(0, 90), "outputTokens": 7}
        message = assistant("c1", turn=self.turn, step=step, sourceEventSeqs=chunks)  # type: ignore[arg-type]
        if self.rng.random() < 0.8:
            message["data"] = {**message["data"], "usage": usage}  # type: ignore[dict-item]
        self.add(message)
        called = self.add(call("c1", self.turn, step))
        self.add(result("c1", turn=self.turn, step=step, sourceEventSeqs=[called]))
        self.add(step_end(step, self.turn))

    def replace_some(self) -> None:
        first = self.rng.randrange(len(self.surface))
        last = self.rng.randrange(first, len(self.surface))
        shadowed = self.surface[first : last + 1]
        self.add(user("sum", span(shadowed[0], shadowed[-1]), sourceEventSeqs=list(shadowed)))


def appends_of(items: list[Item], rng: random.Random) -> list[tuple[Item, ...]]:
    appends, at = [], 0
    while at < len(items):
        size = rng.randint(1, 6)
        appends.append(tuple(items[at : at + size]))
        at += size
    return appends
