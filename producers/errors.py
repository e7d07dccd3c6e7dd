"""What a writer may be told instead of an answer it hoped for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surfacelog.schemas.errors import ServiceError, SurfacelogError

if TYPE_CHECKING:
    from surfacelog.schemas.records import Receipt


class AppendRefused(SurfacelogError):  # noqa: N818  # a refusal is an answer, not a failure
    """An append was not admitted: the log is as if it had never been sent.

    `refusal` is one of `schemas.refusals.CODES` and also the error's code; `event_index` is the
    place of the offending item in its append, or None; `append_seq` is the number that the
    writer's next append takes again.
    """

    def __init__(
        self,
        session_id: str,
        append_seq: int,
        refusal: str,
        message: str,
        event_index: int | None = None,
    ) -> None:
        place = "" if event_index is None else f", event {event_index}"
        super().__init__(
            f"{session_id}: append {append_seq}{place} refused ({refusal}): {message}",
            session=session_id,
            append_seq=append_seq,
            event_index=event_index,
        )
        self.code = refusal  # type: ignore[misc]  # the one error whose code the log decides
        self.session_id = session_id
        self.append_seq = append_seq
        self.refusal = refusal
        self.event_index = event_index

    @classmethod
    def of(cls, receipt: Receipt) -> AppendRefused:
        """Return the error of a receipt with status `refused`."""
        return cls(
            receipt.session_id,
            receipt.append_seq,
            receipt.code or "malformed",
            receipt.message or "",
            receipt.event_index,
        )


class DeliveryError(ServiceError):
    """Kafka refused a request for good (no access, too large, topic gone), or no sequencer
    answered it for half of the time after which writers are forgotten.

    Whether earlier appends of the writer are in the log is told by their own futures; this
    writer cannot go on: open the session again.
    """

    code = "delivery"


class WriterClosedError(SurfacelogError):
    """The writer or client was closed, so nothing more can be said about its appends."""

    code = "closed"


class FlushTimeout(SurfacelogError):  # noqa: N818  # it is a timeout, and callers say so
    """An append did not reach the wanted level in time; it may still do so later.

    `accepted` and `committed` count the writer's appends that are known to be that far, of
    `sent`; `committed_seq` is the last seq known to be in the log and `visible_seq` the last one
    known to be projected (-1: none).
    """

    code = "flush_timeout"

    def __init__(
        self,
        session_id: str,
        level: str,
        *,
        sent: int,
        accepted: int,
        committed: int,
        committed_seq: int,
        visible_seq: int,
    ) -> None:
        super().__init__(
            f"{session_id}: not {level} in time; of {sent} appends {accepted} are accepted and "
            f"{committed} committed, up to seq {committed_seq}; visible up to {visible_seq}",
            session=session_id,
            level=level,
            sent=sent,
            accepted=accepted,
            committed=committed,
            committed_seq=committed_seq,
            visible_seq=visible_seq,
        )
        self.level = level
        self.sent = sent
        self.accepted = accepted
        self.committed = committed
        self.committed_seq = committed_seq
        self.visible_seq = visible_seq
