"""Typed errors. Every one has a stable code, says what was refused and why, and what to do."""

from __future__ import annotations

from typing import ClassVar


class SurfacelogError(Exception):
    """The base of every error that surfacelog raises on purpose.

    `code` is stable and may be matched by programs; the message is for people.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class AdmissionError(SurfacelogError):
    """An append breaks a rule of the session (DESIGN 4, SEMANTICS 3).

    `refusal` is one of `schemas.refusals.CODES`; `event_index` is the place of the offending
    event in its append (a chunk run counts as one item), or None when the append itself is at
    fault.
    """

    code = "refused"

    def __init__(self, refusal: str, message: str, event_index: int | None = None) -> None:
        super().__init__(message, refusal=refusal, event_index=event_index)
        self.refusal = refusal
        self.event_index = event_index


class UnsupportedLogError(SurfacelogError):
    """A session holds a type or a version that this reader does not know (SEMANTICS 2, 3)."""

    code = "unsupported"


class CorruptLogError(SurfacelogError):
    """A stored session breaks the rules of its format (SEMANTICS 9)."""

    code = "corrupt"


class NotFoundError(SurfacelogError):
    """No such session, or no such seq in it."""

    code = "not_found"


class ServiceError(SurfacelogError):
    """Kafka, the schema registry or Redis did not answer, or answered that it cannot."""

    code = "service"
