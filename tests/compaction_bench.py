"""A session, its Surface and a compactor's tools in memory, driven through real admission."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, cast

from surfacelog.processors.compactor.lock import SessionLock
from surfacelog.processors.compactor.one_compaction import OneCompaction, Tools
from surfacelog.processors.compactor.span_log import SpanLog
from surfacelog.processors.summarizers.extractive import ExtractiveSummarizer
from surfacelog.projections.admission import Admitted, Duplicate, Refused
from surfacelog.projections.checkpoint import checkpoint_of
from surfacelog.projections.compaction_policy import policies
from surfacelog.projections.messages import derived_message
from surfacelog.projections.reader import SurfaceCut, SurfaceReader, Tokens
from surfacelog.projections.surface import SurfaceFold, fold_surface
from surfacelog.projections.tokens import message_price
from surfacelog.schemas.citations import resolve_citations
from surfacelog.schemas.errors import NotFoundError
from surfacelog.schemas.json_value import JsonObject, text_member
from surfacelog.schemas.records import (
    AppendRequest,
    ChunkRun,
    CompactionRequest,
    EventBatch,
    Receipt,
    SeqRange,
)
from surfacelog.schemas.settings import Settings
from tests.live_session import LiveSession

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from surfacelog.processors.compactor.bracket_watch import BracketWatch
    from surfacelog.processors.summarizers.protocol import Summarizer, Summary, SummaryRequest
    from surfacelog.projections.log_reader import LogReader
    from surfacelog.schemas.compaction_outcome import CompactionOutcome


@dataclass
class Bench:
    """`before_send` sees every append of the compactor before it is admitted."""

    session: LiveSession = field(default_factory=LiveSession)
    before_send: Callable[[AppendRequest], None] | None = None
    summarizer: Summarizer = field(default_factory=ExtractiveSummarizer)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    lock: HeldLock = field(default_factory=lambda: HeldLock())
    _writers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.session.open()

    @property
    def tools(self) -> Tools:
        return Tools(
            settings=Settings(),
            surface=cast("SurfaceReader", self),
            log=SpanLog(cast("LogReader", self)),
            sender=self,
            brackets=cast("BracketWatch", self),
            summarizer=self.summarizer,
            policies=policies({}),
            stopping=self.stopping,
        )

    async def compact(
        self, retain: int = 0, wanted: SeqRange | None = None, request_id: str = "r"
    ) -> CompactionOutcome:
        """Compact the session for a manual request; raises what OneCompaction raises."""
        cut = await self.read("s")
        request = CompactionRequest(
            request_id, "s", "manual", cut.generation, "test", wanted, retain
        )
        lock = cast("SessionLock", self.lock)
        return await OneCompaction(request, lock, self.tools).run(cut, retain)

    def log(self) -> list[JsonObject]:
        """Return the log's events with seq and absolute citations; chunk runs are left out."""
        return [event for batch in self.session.log for event in batch_events(batch)]

    def types(self) -> list[object]:
        return [event["type"] for event in self.log()]

    def fold(self) -> SurfaceFold:
        return fold_surface(self.log())

    # As the sender of appends.
    def writer_id(self, _session_id: str) -> str:
        return f"w-{next(self._writers)}"

    async def send(self, request: AppendRequest) -> asyncio.Future[Receipt]:
        if self.before_send is not None:
            self.before_send(request)
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        answer.set_result(self._receipt(request))
        return answer

    def release(self, _session_id: str, writer_id: str) -> None:
        self.session.sent.pop(writer_id, None)

    # As the reader of Surfaces.
    async def read(
        self, session_id: str, *, at_least: int | None = None, **_timeout: float
    ) -> SurfaceCut:
        state, fold = self.session.state, self.fold()
        assert state is not None
        assert at_least is None or state.next_seq > at_least
        events = {event["seq"]: event for event in self.log()}
        derived = [derived_message(events[seq]) for seq in fold.nodes]
        prices = tuple(map(message_price, derived))
        return SurfaceCut(
            session_id=session_id,
            as_of_seq=state.next_seq - 1,
            generation=fold.generation,
            tokens=Tokens(sum(prices), 0, None, None),
            nodes=tuple(fold.nodes),
            messages=tuple(message for message in derived if message is not None),
            prices=prices,
            header=None,
            context=None,
            open_turn=state.loop.turn,
            open_step=None,
            open_compaction=state.bracket and state.bracket.compaction_id,
            epoch=state.epoch,
            open_compaction_seq=self._bracket_seq(),
        )

    # As the watch of brackets.
    async def closed(self, _session: str, compaction_id: str, _start: int) -> None:
        while (state := self.session.state) and state.bracket:
            if state.bracket.compaction_id != compaction_id:
                break
            await asyncio.sleep(0)

    # As the reader of the log.
    def batches(
        self, _session: str, first: int = 0, last: int | None = None
    ) -> Iterator[tuple[int, EventBatch]]:
        for offset, batch in enumerate(self.session.log):
            if batch.next_seq > first and (last is None or batch.first_seq <= last):
                yield offset, batch

    def events(
        self, _session: str, first: int = 0, last: int | None = None
    ) -> Iterator[JsonObject]:
        found = [event for event in self.log() if first <= cast("int", event["seq"])]
        if not found:
            raise NotFoundError(f"the log ends before {first}")
        yield from (e for e in found if last is None or cast("int", e["seq"]) <= last)

    def _bracket_seq(self) -> int | None:
        starts = [event for event in self.log() if event["type"] == "compaction/start"]
        bracket = self.session.state and self.session.state.bracket
        return cast("int", starts[-1]["seq"]) if bracket else None

    def _receipt(self, request: AppendRequest) -> Receipt:
        number = self.session.sent.get(request.writer_id, 0)
        decision = self.session.send(replace(request, append_seq=number))
        name = (request.session_id, request.writer_id, request.append_seq, request.attempt)
        match decision:
            case Admitted(batch=batch):
                return Receipt(*name, "committed", batch.first_seq, batch.next_seq - 1)
            case Duplicate(first_seq=first, last_seq=last):
                return Receipt(*name, "duplicate", first, last)
            case Refused(code=code, message=message, event_index=index):
                return Receipt(*name, "refused", code=code, message=message, event_index=index)


class HeldLock:
    """A lock that is lost when a test says so."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    check = SessionLock.check
    _expired = staticmethod(lambda: False)
    _key = "lock"


class Summarizing:
    """A summarizer that does something in the middle of its call, then summarizes as usual."""

    identity = "test"

    def __init__(self, meanwhile: Callable[[SummaryRequest], Awaitable[Summary | None]]) -> None:
        self._meanwhile = meanwhile
        self.requests: list[SummaryRequest] = []

    async def summarize(self, request: SummaryRequest) -> Summary:
        self.requests.append(request)
        return await self._meanwhile(request) or await ExtractiveSummarizer().summarize(request)


def batch_events(batch: EventBatch) -> Iterator[JsonObject]:
    seq = batch.first_seq
    for item in batch.items:
        if isinstance(item, ChunkRun):
            seq += len(item)
            continue
        resolved = resolve_citations(item, batch.first_seq)
        yield {"type": resolved["type"], "seq": seq, **resolved}
        seq += 1


def checkpoints(bench: Bench) -> list[str]:
    """Return the ids of the compactions whose checkpoints are on the Surface."""
    by_seq = {event["seq"]: event for event in bench.log()}
    messages = (derived_message(by_seq[seq]) for seq in bench.fold().nodes)
    return [found for m in messages if m and (found := checkpoint_of(m)) is not None]


def ends(bench: Bench) -> list[tuple[str | None, str | None]]:
    """Return (error, errorClass) of every compaction/end."""
    found = [event["data"] for event in bench.log() if event["type"] == "compaction/end"]
    return [(text_member(data, "error"), text_member(data, "errorClass")) for data in found]
