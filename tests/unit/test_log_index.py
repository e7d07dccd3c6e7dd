"""Where a targeted read of the log begins."""

from __future__ import annotations

import pytest

from surfacelog.projections.log_index import index_entry, offset_before

# An open without events, 3 events, 2 more, another open without events, one event.
APPENDS = ((0, 10), (0, 12), (3, 15), (5, 20), (5, 21))
INDEX = b"".join(index_entry(*append) for append in APPENDS)


@pytest.mark.parametrize(
    ("seq", "offset"), [(0, 10), (1, 12), (2, 12), (3, 15), (4, 15), (5, 20), (6, 21), (99, 21)]
)
def test_a_read_begins_with_the_first_append_that_stands_at_the_seq(seq: int, offset: int) -> None:
    assert offset_before(INDEX, seq) == offset


@pytest.mark.parametrize("seq", [0, 2])
def test_an_index_that_begins_later_does_not_tell(seq: int) -> None:
    assert offset_before(INDEX[2 * 16 :], seq) is None
    assert offset_before(b"", seq) is None
