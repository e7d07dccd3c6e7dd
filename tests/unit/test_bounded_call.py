from __future__ import annotations

import threading

import pytest

from surfacelog.schemas.bounded_call import CallThread, StalledCallError, close_in_time


def test_what_a_call_does_is_passed_on() -> None:
    thread = CallThread()
    assert [thread.call("answering", lambda n=n: n, 5) for n in range(3)] == [0, 1, 2]  # type: ignore[misc]  # binds n

    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        thread.call("failing", fail, 5)
    assert thread.call("going on", lambda: 7, 5) == 7
    thread.end()


def test_a_call_that_does_not_return_is_left_behind() -> None:
    thread, released = CallThread(), threading.Event()
    with pytest.raises(StalledCallError, match="sending did not return"):
        thread.call("sending", released.wait, 0.05)
    released.set()
    thread.end()


def test_a_client_that_does_not_close_holds_nobody_up() -> None:
    closed, released = threading.Event(), threading.Event()
    close_in_time("a client", closed.set)
    assert closed.is_set()
    close_in_time("a client that hangs", lambda: hang(released), 0.05)
    released.set()


def hang(released: threading.Event) -> None:
    released.wait(30)
