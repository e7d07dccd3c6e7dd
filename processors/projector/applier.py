"""Applies appends of the log to the sessions in Redis, many in one round trip (DESIGN 6).

The sessions in use are kept in memory as views; what a view does not hold is read back first.
A session whose append cannot be applied fails alone: the others go on.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from surfacelog.projections.session_view import SessionView, replaces
from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from surfacelog.processors.projector.patience import PatientRedis
    from surfacelog.projections.log_reader import LogReader
    from surfacelog.projections.redis_calls import Command
    from surfacelog.projections.session_change import SessionChange
    from surfacelog.projections.store import ApplyOutcome, SurfaceStore
    from surfacelog.schemas.records import EventBatch

MAX_VIEWS: Final = 10_000


class LogEntry(NamedTuple):
    """One append and its place in the log."""

    partition: int
    offset: int
    batch: EventBatch


class Failure(NamedTuple):
    """Why a session could not go on: a stable code, what happened, and the append it stands at."""

    code: str
    message: str
    seq: int
    offset: int


class Noted(NamedTuple):
    """What Redis is known to have of a session: its watermark, and its last activity in ms."""

    watermark: int
    activity: int


@dataclass(slots=True)
class Applied:
    """What came of a round: events applied, failures by session, and answers to `extra`."""

    events: int = 0
    failures: dict[str, Failure] = field(default_factory=dict)
    extra: list[Any] = field(default_factory=list)


class Applier:
    """Turns log entries into changes and writes them. The caller holds `Partitions.turn`."""

    def __init__(self, redis: PatientRedis, store: SurfaceStore, reader: LogReader) -> None:
        self._redis = redis
        self._store = store
        self._reader = reader
        self._views: OrderedDict[str, SessionView] = OrderedDict()
        self._partition_of: dict[str, int] = {}
        self.touched: dict[int, dict[str, Noted]] = {}

    async def apply(self, entries: Sequence[LogEntry], extra: Sequence[Command] = ()) -> Applied:
        """Apply entries in the order of the log, then run `extra` in the same round trip."""
        result = Applied()
        await self._read_back(entries, result)
        changes: list[tuple[LogEntry, SessionChange]] = []
        for entry in entries:
            if entry.batch.session_id not in result.failures:
                change = await self._change(entry, result)
                if change is not None:
                    changes.append((entry, change))
        commands = [self._store.apply(change) for _, change in changes]
        commands += self._newly_listed(changes)
        answers = await self._redis.run([*commands, *extra])
        for (entry, change), answer in zip(changes, answers, strict=False):
            self._settle(entry, change, self._store.applied(answer), result)
        result.extra = answers[len(commands) :]
        self._touch(entries, result)
        self._trim()
        return result

    async def views(self, partition: int, session_ids: Iterable[str]) -> list[SessionView]:
        """Return the sessions as Redis has them, without those that cannot be read."""
        wanted = list(session_ids)
        missing = [session_id for session_id in wanted if session_id not in self._views]
        await self._load(dict.fromkeys(missing, False))
        self._partition_of.update(dict.fromkeys(missing, partition))
        return [self._views[session_id] for session_id in wanted if session_id in self._views]

    def forget(self, session_id: str) -> None:
        """Drop what is known of a session; it is read back when it is needed again."""
        self._views.pop(session_id, None)
        self._partition_of.pop(session_id, None)

    def forget_partition(self, partition: int) -> None:
        """Drop what is known of all sessions of a partition."""
        self.touched.pop(partition, None)
        for session_id in [s for s, p in self._partition_of.items() if p == partition]:
            self.forget(session_id)

    def position(self, session_id: str) -> int:
        """Return the offset of the last append known to be applied, -1 when none is."""
        view = self._views.get(session_id)
        return -1 if view is None else view.offset

    async def _read_back(self, entries: Sequence[LogEntry], result: Applied) -> None:
        """Load the views that are missing, or that lack the nodes which a replacement needs."""
        wanted: dict[str, bool] = {}
        first: dict[str, LogEntry] = {}
        for entry in entries:
            session_id = entry.batch.session_id
            first.setdefault(session_id, entry)
            view = self._views.get(session_id)
            surface = replaces(entry.batch)
            if view is None or (surface and not view.has_surface):
                wanted[session_id] = wanted.get(session_id, False) or surface
            self._partition_of[session_id] = entry.partition
        for session_id, error in (await self._load(wanted)).items():
            self._fail(first[session_id], result, error)

    async def _load(self, wanted: Mapping[str, bool]) -> dict[str, SurfacelogError]:
        """Read sessions back, True = with their nodes; return why some could not be."""
        commands = [self._store.load(s, surface=surface) for s, surface in wanted.items()]
        answers = await self._redis.run(commands)
        errors: dict[str, SurfacelogError] = {}
        for (session_id, surface), answer in zip(wanted.items(), answers, strict=True):
            try:
                stored = self._store.loaded(answer)
                self._views[session_id] = SessionView.restore(session_id, stored, surface=surface)
            except SurfacelogError as error:
                errors[session_id] = error
        return errors

    async def _change(self, entry: LogEntry, result: Applied) -> SessionChange | None:
        view = self._views[entry.batch.session_id]
        self._views.move_to_end(view.session_id)
        if view.contains(entry.batch, entry.offset):
            return None
        try:
            await self._fetch_chunks(view, entry.batch)
            return view.apply(entry.batch, entry.offset)
        except Exception as error:  # noqa: BLE001  # one session's fault must not stop the others
            self._fail(entry, result, error)
            return None

    async def _fetch_chunks(self, view: SessionView, batch: EventBatch) -> None:
        missing = view.missing_chunks(batch)
        if missing is not None:
            read = self._reader.events(view.session_id, missing.start, missing.end)
            view.add_chunks(await asyncio.to_thread(list, read))

    def _fail(self, entry: LogEntry, result: Applied, error: Exception) -> None:
        code = error.code if isinstance(error, SurfacelogError) else "internal"
        message = f"{type(error).__name__}: {error}"
        session_id = entry.batch.session_id
        result.failures[session_id] = Failure(code, message, entry.batch.first_seq, entry.offset)
        self.forget(session_id)

    def _newly_listed(self, changes: list[tuple[LogEntry, SessionChange]]) -> list[Command]:
        """List new sessions at once; what changes later is noted by the ticker."""
        return [
            self._store.active(change.session_id, self._views[change.session_id].activity)
            for _, change in changes
            if change.first_seq == 0 and change.session_id in self._views
        ]

    def _settle(
        self, entry: LogEntry, change: SessionChange, outcome: ApplyOutcome, result: Applied
    ) -> None:
        if outcome.status == "applied":
            result.events += change.next_seq - change.first_seq
            return
        # Another projector, or a Redis that lost something: the view is not what Redis has.
        self.forget(change.session_id)
        if outcome.status != "older" and change.session_id not in result.failures:
            message = outcome.reason or f"Redis has seq {outcome.watermark}"
            result.failures[change.session_id] = Failure(
                outcome.status, message, change.first_seq, entry.offset
            )

    def _touch(self, entries: Sequence[LogEntry], result: Applied) -> None:
        """Remember how far Redis is now known to be, for the ticker to note."""
        for entry in entries:
            view = self._views.get(entry.batch.session_id)
            if view is not None and view.session_id not in result.failures:
                noted = Noted(view.next_seq - 1, view.activity)
                self.touched.setdefault(entry.partition, {})[view.session_id] = noted

    def _trim(self) -> None:
        while len(self._views) > MAX_VIEWS:
            session_id, _ = self._views.popitem(last=False)
            self._partition_of.pop(session_id, None)
