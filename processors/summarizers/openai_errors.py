"""What an endpoint's failures mean: worth another call, or not."""

from __future__ import annotations

import math
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

from openai import APIConnectionError, APIError, APIStatusError

from surfacelog.processors.summarizers.protocol import SummaryError
from surfacelog.schemas.json_value import member

if TYPE_CHECKING:
    from collections.abc import Mapping

RETRY_AFTER_SECONDS_MAX: Final = 300.0
"""Who is told to wait longer gives up: the session is asked for again later anyway."""

_TRANSIENT_STATUSES: Final = (408, 409, 429)
_TRANSIENT_TYPES: Final = ("server_error", "overloaded_error", "rate_limit_error")


class TransientError(SummaryError):
    """The call may go better after `retry_after` seconds."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


def as_summary_error(error: APIError | ValueError) -> SummaryError:
    """Return a failed call as what it means; a ValueError is an answer that cannot be read."""
    if isinstance(error, APIStatusError):
        message = f"the endpoint answered {error.status_code}: {error.message}"
        wait = retry_after(error.response.headers, time.time())
        if _is_transient(error.status_code) and wait <= RETRY_AFTER_SECONDS_MAX:
            return TransientError(message, wait)
        return SummaryError(message)
    if isinstance(error, APIConnectionError):
        return TransientError(f"no connection to the endpoint, or it was cut: {error.message}")
    if isinstance(error, APIError):
        message = f"the endpoint sent an error instead of an answer: {error.message}"
        return TransientError(message) if _says_transient(error.body) else SummaryError(message)
    return SummaryError(f"the endpoint sent what cannot be read: {error}")


def retry_after(headers: Mapping[str, str], now: float) -> float:
    """Return the seconds that a retry-after header asks for, as a number or a date; else 0."""
    asked = headers.get("retry-after", "")
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(asked).timestamp() - now
        except ValueError:
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0


def _says_transient(body: object) -> bool:
    """Tell it from the error object inside a stream that had begun well with status 200."""
    if not isinstance(body, dict):
        return False
    code, kind = member(body, "code"), member(body, "type")
    return kind in _TRANSIENT_TYPES or (
        isinstance(code, int | str) and str(code).isdecimal() and _is_transient(int(code))
    )


def _is_transient(status: int) -> bool:
    return status in _TRANSIENT_STATUSES or status >= 500
