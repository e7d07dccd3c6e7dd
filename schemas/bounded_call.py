"""Calls into clients that may never return, and what to do when they do not.

librdkafka's send_offsets_to_transaction ignores its timeout when the group's coordinator went
away meanwhile, and closing a consumer takes none. A thread that is inside such a call can be
neither interrupted nor stopped by a signal, so it must not be the one that the process needs.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from surfacelog.schemas.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable

CLOSE_SECONDS: Final = 5.0

T = TypeVar("T")

_log = structlog.get_logger()


class StalledCallError(ServiceError):
    """A call did not return in time. It still runs: its client must not be used any more."""

    code = "stalled"


class CallThread:
    """Makes calls one after the other on a thread of its own, which ends with the process."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        threading.Thread(target=self._serve, name="bounded calls", daemon=True).start()

    def call(self, what: str, call: Callable[[], T], seconds: float) -> T:
        """Return or raise what `call` does; StalledCallError when that takes longer.

        After that error this thread is of no use any more.
        """
        answer: Future[T] = Future()

        def run() -> None:
            try:
                answer.set_result(call())
            except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
                answer.set_exception(error)

        self._calls.put(run)
        if wait([answer], seconds).not_done:
            raise StalledCallError(f"{what} did not return within {seconds:g} s")
        return answer.result()

    def end(self) -> None:
        """End the thread after the call that it is in."""
        self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def close_in_time(what: str, close: Callable[[], None], seconds: float = CLOSE_SECONDS) -> None:
    """Close a client; leave it behind, with a warning, when that does not return in time."""
    thread = CallThread()
    try:
        thread.call(f"closing {what}", close, seconds)
    except StalledCallError as error:
        _log.warning("left open", reason=error.message)
    finally:
        thread.end()
