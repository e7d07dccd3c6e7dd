"""Writing a session as its owner: the agent's side of the log (DESIGN 5)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from surfacelog.producers.agent_turn import Turn, last_turn
from surfacelog.producers.append_client import AppendClient
from surfacelog.producers.append_handle import AppendHandle
from surfacelog.producers.chunk_buffer import ChunkBuffer, Streaming
from surfacelog.producers.errors import AppendRefused
from surfacelog.producers.own_surface import OwnSurface
from surfacelog.producers.sent_appends import Level, SentAppends
from surfacelog.projections.dynamic_context import shown_sections, snapshot_message
from surfacelog.projections.redis_calls import RedisUnavailableError
from surfacelog.projections.visibility import TimeLimit, VisibilityTimeout
from surfacelog.schemas.clock import now_ms
from surfacelog.schemas.codec import EncodeError
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.event_types import SURFACE_TYPES
from surfacelog.schemas.records import AppendRequest, Open
from surfacelog.schemas.session_header import FORMAT_VERSION

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from surfacelog.producers.append_queue import SentAppend
    from surfacelog.schemas.compaction_outcome import CompactionOutcome
    from surfacelog.schemas.json_value import JsonObject, JsonValue
    from surfacelog.schemas.records import Expectation, Receipt, Trigger
    from surfacelog.schemas.settings import Settings

FLUSH_SECONDS: Final = 30.0
LAST_WORDS_SECONDS: Final = 5.0
COMPACTION_SECONDS: Final = 900.0
"""A model may take ten minutes for a summary, and be asked more than once."""

_ENVELOPE: Final = ("type", "time", "data", "ignorable", "sourceEventSeqs", "surfaceOp")


class SessionWriter:
    """The owner of one session. Make one with `open`.

    Nothing here waits for the log unless it says so: appends are pipelined, and a refused one
    raises AppendRefused at the next call of any method. Everything appended after it and before
    that call is refused with it (code `order`); the next append goes on in its place. Calls wait
    when 32 appends are unanswered.

    `epoch` is the ownership's number, `opened` the receipt of the open. `response` counts the
    responses: it grows when what was streamed so far is appended, given up or dropped.
    """

    def __init__(self, client: AppendClient, session_id: str, streaming: Streaming) -> None:
        self.session_id = session_id
        self.writer_id = client.writer_id(session_id)
        self._client = client
        self._streaming = streaming
        self._chunks = ChunkBuffer(streaming)
        self._order = asyncio.Lock()
        self._sent = SentAppends()
        self.response = 0
        self._parts: list[AppendHandle] = []
        self._refusal: AppendRefused | EncodeError | None = None
        self._send_due: asyncio.Task[None] | None = None
        self._last_turn: int | None = None
        self._surface = OwnSurface(client, session_id)

    @property
    def unacknowledged(self) -> int:
        """Appends that were sent and have no receipt yet."""
        return self._sent.unacknowledged

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        session_id: str,
        *,
        cwd: str | None = None,
        client: AppendClient | None = None,
        streaming: Streaming | None = None,
        timeout: float = FLUSH_SECONDS,  # noqa: ASYNC109  # the public name of a time limit here
    ) -> AsyncIterator[SessionWriter]:
        """Create the session or take its ownership; earlier owners are fenced from then on.

        `cwd` (absolute) goes into the header of a new session. Writers of one process should
        share a started `client`. At the end everything is flushed to `committed`; after an
        exception what was appended before it is still sent, but not waited for. Raises
        AppendRefused, FlushTimeout when no sequencer answers in time, NamespaceError, ServiceError.
        """
        own_client = await AppendClient.connect(settings) if client is None else None
        writer = cls(client or own_client, session_id, streaming or Streaming())  # type: ignore[arg-type]  # one of the two is there
        try:
            await writer._open(cwd, timeout)
            yield writer
            await writer.flush("committed", timeout=timeout)
        except BaseException:
            with suppress(SurfacelogError):
                await writer.flush("accepted", timeout=LAST_WORDS_SECONDS)
            raise
        finally:
            await writer._close()
            if own_client is not None:
                await own_client.close()

    async def append(self, *events: JsonObject, expect: Expectation | None = None) -> AppendHandle:
        """Append events, all or nothing and next to each other.

        An event has type and data as in SEMANTICS 2; `time` defaults to now and `surfaceOp` to
        "append". In `sourceEventSeqs` an entry -1-i cites the i-th event of this call. Chunks
        streamed before go first. Raises AppendRefused (of an earlier append), EncodeError.
        """
        self._raise_refusal()
        async with self._order:
            await self._send_chunks()
            return await self._send(tuple(_completed(event) for event in events), expect=expect)

    async def chunk(self, turn: int, step: int, chunk: JsonObject) -> None:
        """Stream one assistant/chunk. It is sent with others, see `Streaming`.

        Waits only when the writer may not have more on its way. Raises AppendRefused (of an
        earlier append), EncodeError.
        """
        self._raise_refusal()
        data: JsonObject = {"turn": turn, "step": step, "chunk": chunk}
        try:
            self._chunks.add({"type": "assistant/chunk", "time": now_ms(), "data": data})
        except EncodeError:
            self._drop_response()  # as it is when this shows only in sending
            raise
        if self._chunks.is_full:
            await self._send_streamed()
        elif self._send_due is None:
            self._send_due = asyncio.create_task(self._send_when_due())

    async def restart_response(self) -> None:
        """Give up the response that is being streamed: the model is called again.

        Its chunks stay in the log, and the next assistant/message does not cite them. Raises
        AppendRefused (of an earlier append).
        """
        async with self._order:
            await self._send_chunks()
            self._begin_response()

    async def append_response(self, event: JsonObject) -> AppendHandle:
        """Append an assistant/message that cites every chunk streamed since the last one.

        The chunks that are not sent yet go into the same append. Waits for the receipts of the
        others. Raises AppendRefused when one of them was refused.
        """
        self._raise_refusal()
        async with self._order:
            sources: list[JsonValue] = []
            for part in self._parts:
                sources += await part.committed()
            self._raise_refusal()
            tail = self._chunks.take()
            sources += [-1 - i for i in range(len(tail))]
            cited = _completed({**event, "sourceEventSeqs": sources})
            try:
                handle = await self._send((*tail, cited))
            except BaseException:
                self._chunks.put_back(tail)
                raise
            self._begin_response()
            self._surface.answered()
            return handle

    async def turn(self) -> Turn:
        """Return the next turn, to be used as an async context manager."""
        if self._last_turn is None:
            known = self.epoch > 1
            self._last_turn = await last_turn(self._client, self.session_id) if known else 0
        self._last_turn += 1
        return Turn(self, self._last_turn)

    async def flush(
        self,
        level: Level = "committed",
        *,
        timeout: float = FLUSH_SECONDS,  # noqa: ASYNC109  # the public name of a time limit here
    ) -> int:
        """Wait until everything appended so far is at `level`; return its last seq, -1 for none.

        accepted: Kafka has it. committed: it is in the log. visible: readers of the Surface see
        it. Raises AppendRefused, DeliveryError, and FlushTimeout, which says what is known.
        """
        limit = TimeLimit(timeout)
        try:
            async with asyncio.timeout(timeout):
                await self._send_streamed()
                await self._sent.wait(level)
        except TimeoutError as error:
            raise self._sent.too_late(self.session_id, level) from error
        self._raise_refusal()
        if level == "visible" and self._sent.committed_seq > self._sent.visible_seq:
            await self._wait_visible(limit)
        return self._sent.committed_seq

    async def checkpoint(self, *, timeout: float = FLUSH_SECONDS) -> int:  # noqa: ASYNC109  # as above
        """Make durable what happened so far. Call it before the model is called, before a
        top-level tool runs and before each step; when it raises, do not go on (SEMANTICS 7).
        """
        return await self.flush("committed", timeout=timeout)

    async def ensure_context(self, plugin: str, sections: Mapping[str, str]) -> AppendHandle | None:
        """Append a snapshot of a plugin's dynamic context, unless the model sees it already.

        `sections` are texts by name. Call it before the model is called: it appends when they
        changed, and when a compaction has taken the last snapshot off the Surface; None means
        that it had not to. Waits until what was appended before is visible; raises what `flush`
        raises.
        """
        last = await self.flush("visible")
        cut = await self._surface.read(last)
        shown = shown_sections(cut.messages, plugin)
        if dict(sections) == (shown or {}):
            return None
        return await self.append(
            {"type": "user/message", "data": snapshot_message(plugin, sections)}
        )

    async def request_compaction(
        self,
        trigger: Trigger = "context-overflow",
        *,
        timeout: float = COMPACTION_SECONDS,  # noqa: ASYNC109  # as above
    ) -> CompactionOutcome:
        """Have the session compacted, and return the outcome when readers see it.

        For an owner whose model said that the context is too long: calling it again is worth it
        when `outcome.advanced`. Raises OverflowPersists when this request to the model has
        overflowed as often as the policy allows, OutcomeTimeout after `timeout` seconds, and
        what `flush` raises.
        """
        last = await self.flush("visible")
        return await self._surface.compact(trigger, self.writer_id, last, TimeLimit(timeout))

    async def _open(self, cwd: str | None, timeout: float) -> None:  # noqa: ASYNC109  # as above
        header: JsonObject = {
            "version": FORMAT_VERSION,
            "id": self.session_id,
            "createdAt": now_ms(),
        }
        if cwd is not None:
            header["cwd"] = cwd
        header["delegationDepth"] = 0
        self.epoch = 0
        handle = await self._send((), open=Open(header))
        try:
            async with asyncio.timeout(timeout):
                await handle.committed()
                self.opened: Receipt = await handle._sent
        except TimeoutError as error:
            raise self._sent.too_late(self.session_id, "committed") from error
        self.epoch = self.opened.epoch or 0

    async def _close(self) -> None:
        if self._send_due is not None:
            self._send_due.cancel()
        await self._surface.close()
        self._client.release(self.session_id, self.writer_id)

    async def _send(self, items: tuple[JsonObject, ...], **more: Any) -> AppendHandle:
        """Send one append; nothing of it is sent when this raises, also when it is cancelled."""
        self._raise_refusal()
        sent = await self._client.send(
            AppendRequest(self.session_id, self.writer_id, self.epoch, 0, 0, "owner", items, **more)
        )
        self._sent.add(sent)
        return AppendHandle(sent, self._note_told)

    async def _send_chunks(self) -> None:
        """Send the chunks that wait, as one append. The caller holds the order."""
        self._raise_refusal()
        if not len(self._chunks):
            return
        taken = self._chunks.take()
        try:
            self._parts.append(await self._send(taken))
        except (AppendRefused, EncodeError):
            self._drop_response()  # no append can carry them: kept, they would fail for ever
            raise
        except BaseException:
            self._chunks.put_back(taken)
            raise

    async def _send_streamed(self) -> None:
        async with self._order:
            await self._send_chunks()

    async def _send_when_due(self) -> None:
        try:
            await asyncio.sleep(self._streaming.seconds)
            self._send_due = None
            await self._send_streamed()
        except (AppendRefused, EncodeError) as refusal:
            self._refusal = refusal
        except SurfacelogError:
            pass  # the chunks were put back: the next call meets the same error and raises it

    async def _wait_visible(self, limit: TimeLimit) -> None:
        try:
            seen = await self._surface.wait_visible(self._sent.committed_seq, limit)
            self._sent.visible_seq = seen
        except VisibilityTimeout as error:
            self._sent.visible_seq = error.watermark
            raise self._sent.too_late(self.session_id, "visible") from error
        except RedisUnavailableError as error:
            raise self._sent.too_late(self.session_id, "visible") from error

    def _raise_refusal(self) -> None:
        """Raise the first refusal that nobody was told of, and drop what came after it."""
        refusal: AppendRefused | EncodeError | None = self._refusal or self._sent.take_refusal()
        self._refusal = None
        if refusal is not None:
            self._drop_response()
            raise refusal

    def _note_told(self, refused: SentAppend) -> None:
        """Take note that a handle raises a refusal, unless a call of the writer did it before."""
        if self._sent.note_told(refused):
            self._drop_response()

    def _drop_response(self) -> None:
        """Drop what is streamed behind a refusal, sent or not."""
        self._begin_response()
        self._chunks.take()

    def _begin_response(self) -> None:
        self._parts.clear()
        self.response += 1


def _completed(event: JsonObject) -> JsonObject:
    """Return the event in the order of the envelope, with the members it may leave out."""
    defaults: JsonObject = {"time": now_ms()}
    if event.get("type") in SURFACE_TYPES:
        defaults["surfaceOp"] = "append"
    given = defaults | event
    known = {name: given[name] for name in _ENVELOPE if name in given}
    return known | given
