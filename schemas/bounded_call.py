"""Calls into clients that may never return, and what to do when they do not.

librdkafka's send_offsets_to_transaction ignores its timeout when the group's coordinator went
away meanwhile, and a consumer's close takes none. A thread that is inside such a call can be
neither interrupted nor stopped by a signal, so it must not be the one that the process needs.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from surfacelog.schemas.errors import ServiceError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class StalledCallError(ServiceError):
    """A call did not return in time. It still runs: its client must not be used any more."""

    code = "stalled"


def bounded_call(what: str, call: Callable[[], T], seconds: float) -> T:
    """Return or raise what `call` does, on a thread of its own; StalledCallError after `seconds`.

    The thread of a call that never returns ends with the process and does not hold it up.
    """
    done = threading.Event()
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
            answer.set_exception(error)
        done.set()

    threading.Thread(target=run, name=what, daemon=True).start()
    if not done.wait(seconds):
        raise StalledCallError(f"{what} did not return within {seconds:g} s")
    return answer.result()
