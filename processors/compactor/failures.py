"""Why a compaction failed, as its compaction/end and its outcome say (SEMANTICS 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from surfacelog.processors.compactor.lock import LockLostError
from surfacelog.processors.summarizers.protocol import SummaryError
from surfacelog.projections.compaction_region import SummaryTooLargeError
from surfacelog.projections.visibility import VisibilityTimeout
from surfacelog.schemas.errors import ServiceError, SurfacelogError

if TYPE_CHECKING:
    from surfacelog.schemas.compaction_outcome import FailureClass
    from surfacelog.schemas.json_value import JsonObject


class CompactionFailedError(SurfacelogError):
    """A compaction came to nothing. `failure` is its class, the message says what happened.

    `repeat` says that this is no outcome: the request is to be carried out again, because the
    worker stops, because another one has the session's lock, because a service was away, or
    because nobody knows yet whether the last append landed. `cost` is what a model was paid for
    nothing, as the receipt of a success would name it.
    """

    code: ClassVar[str] = "compaction_failed"

    def __init__(
        self,
        failure: FailureClass,
        message: str,
        *,
        repeat: bool = False,
        cost: JsonObject | None = None,
    ) -> None:
        super().__init__(message, failure=failure)
        self.failure = failure
        self.repeat = repeat
        self.cost = cost


def classified(error: Exception) -> CompactionFailedError:
    """Return an error after compaction/start as the failure that it means.

    What is neither the summary's fault nor a lost lock is a service that did not answer, or
    something that could not be read: `persistence`.
    """
    if isinstance(error, CompactionFailedError):
        return error
    if isinstance(error, SummaryError):
        return CompactionFailedError("summary", error.message, cost=error.cost)
    if isinstance(error, SummaryTooLargeError):
        return CompactionFailedError("summary", error.message)
    if isinstance(error, LockLostError):
        return CompactionFailedError("cancelled", error.message, repeat=True)
    if isinstance(error, ServiceError | VisibilityTimeout):
        return CompactionFailedError("persistence", error.message, repeat=True)
    return CompactionFailedError("persistence", str(error) or type(error).__name__)
