from __future__ import annotations

import threading

import pytest

from surfacelog.schemas.bounded_call import StalledCallError, bounded_call


def test_what_a_call_does_is_passed_on() -> None:
    assert bounded_call("answering", lambda: 7, 5) == 7

    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        bounded_call("failing", fail, 5)


def test_a_call_that_does_not_return_is_left_behind() -> None:
    released = threading.Event()
    with pytest.raises(StalledCallError, match="closing did not return"):
        bounded_call("closing", released.wait, 0.05)
    assert any(t.name == "closing" and t.daemon for t in threading.enumerate())
    released.set()
