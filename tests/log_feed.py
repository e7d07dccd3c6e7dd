"""Writes sessions straight into the log, as a sequencer would, and says what they must fold to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Producer

from surfacelog.projections.fold import fold_log
from surfacelog.schemas.chunk_runs import unpack_items
from surfacelog.schemas.records import EventBatch, Item, event_count
from surfacelog.schemas.topics import partition_of
from tests.log_maker import LogMaker, appends_of

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable

    from surfacelog.projections.reader import SurfaceCut
    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.settings import Settings

CALL_SECONDS = 30.0
"""Without a limit a call of this client may wait for ever, and nothing can interrupt it."""


class LogFeed:
    """A transactional producer of `events`, and what it has written by session."""

    def __init__(self, settings: Settings, codec: Codec) -> None:
        self._topic = settings.topics.events
        self._partitions = settings.partitions
        self._codec = codec
        self.written: dict[str, list[Item]] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": settings.kafka,
                "transactional.id": f"{settings.namespace}-feed",
                "linger.ms": 0,
                "retry.backoff.ms": 2,
                "retry.backoff.max.ms": 20,
            }
        )
        self._producer.init_transactions(CALL_SECONDS)

    def next_seq(self, session_id: str) -> int:
        return event_count(tuple(self.written.get(session_id, ())))

    def batch(self, session_id: str, items: tuple[Item, ...], first_seq: int) -> EventBatch:
        return EventBatch(
            session_id, first_seq, "w", first_seq, "owner", 1, 0, bytes(8), bytes(16), items
        )

    def append(self, session_id: str, items: tuple[Item, ...]) -> int:
        """Commit one append; return its last seq."""
        return self.append_all([(session_id, items)])

    def append_all(self, appends: Iterable[tuple[str, tuple[Item, ...]]]) -> int:
        """Commit appends in one transaction; return the last one's last seq."""
        last = -1
        self._producer.begin_transaction()
        for session_id, items in appends:
            batch = self.batch(session_id, items, self.next_seq(session_id))
            self.produce(batch)
            self.written.setdefault(session_id, []).extend(items)
            last = batch.next_seq - 1
        self._producer.commit_transaction(CALL_SECONDS)
        return last

    def produce(self, batch: EventBatch) -> None:
        """Produce one batch within the open transaction."""
        self.produce_raw(batch.session_id, self._codec.encode_batch(batch))

    def produce_raw(self, session_id: str, payload: bytes) -> None:
        self._producer.produce(
            self._topic,
            payload,
            key=session_id.encode(),
            partition=partition_of(session_id, self._partitions),
        )

    def transaction(self, *batches: EventBatch, abort: bool = False) -> None:
        """Write batches as they are, whatever their seqs; abort after they reached the broker."""
        self._producer.begin_transaction()
        for batch in batches:
            self.produce(batch)
        assert self._producer.flush(CALL_SECONDS) == 0
        if abort:
            self._producer.abort_transaction(CALL_SECONDS)
        else:
            self._producer.commit_transaction(CALL_SECONDS)

    def sessions(self, names: Iterable[str], rng: random.Random, turns: int = 2) -> None:
        """Write random sessions, their appends interleaved, 50 in a transaction."""
        waiting: list[tuple[str, list[tuple[Item, ...]]]] = []
        for name in names:
            maker = LogMaker(rng)
            for _ in range(turns):
                maker.add_turn()
            waiting.append((name, appends_of(maker.items, rng)))
        while waiting:
            picked = rng.sample(waiting, min(50, len(waiting)))
            self.append_all([(name, appends.pop(0)) for name, appends in picked])
            waiting = [(name, appends) for name, appends in waiting if appends]

    def check(self, cut: SurfaceCut) -> None:
        """Compare a cut with the fold of everything that was written to its session."""
        events = list(unpack_items(self.written[cut.session_id], 0))
        folded = fold_log(events)
        assert cut.as_of_seq == len(events) - 1
        assert cut.nodes == folded.nodes
        assert cut.messages == tuple(m for m in folded.messages if m is not None)
        assert cut.prices == folded.prices
        assert (cut.header, cut.context) == (folded.header, folded.context)
        assert cut.generation == folded.generation
        tokens = {"total": cut.tokens.total, "baseline": cut.tokens.baseline}
        assert {"surface": cut.tokens.surface, "header": cut.tokens.header} | tokens == {
            name: value for name, value in folded.tokens().items() if name != "reason"
        }
