from __future__ import annotations

import pytest

from surfacelog.schemas.ids import is_valid_id


@pytest.mark.parametrize("text", ["a", "A-z.0_9:x", "x" * 128])
def test_ids_that_are_accepted(text: str) -> None:
    assert is_valid_id(text)


@pytest.mark.parametrize("text", ["", "x" * 129, "a b", "a/b", "{{sessionId}}", "a\n", "\0a", "é"])
def test_ids_that_are_refused(text: str) -> None:
    assert not is_valid_id(text)
