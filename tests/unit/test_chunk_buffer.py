from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from surfacelog.producers.chunk_buffer import ChunkBuffer, Streaming

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject


def chunk(text: str) -> JsonObject:
    delta: JsonObject = {"type": "text-delta", "index": 0, "text": text}
    data: JsonObject = {"turn": 1, "step": 1, "chunk": delta}
    return {"type": "assistant/chunk", "time": 0, "data": data}


@pytest.mark.parametrize(
    ("limits", "texts", "full"),
    [
        (Streaming(events=3), ["a", "b"], False),
        (Streaming(events=3), ["a", "b", "c"], True),
        (Streaming(bytes=500), ["a"], False),
        (Streaming(bytes=500), ["a" * 500], True),
    ],
)
def test_it_is_full_by_count_or_by_size(limits: Streaming, texts: list[str], full: bool) -> None:
    buffer = ChunkBuffer(limits)
    for text in texts:
        buffer.add(chunk(text))
    assert buffer.is_full is full


def test_what_was_put_back_comes_first_and_counts_again() -> None:
    buffer = ChunkBuffer(Streaming(events=3))
    buffer.add(chunk("a"))
    buffer.add(chunk("b"))
    taken = buffer.take()
    assert len(buffer) == 0
    buffer.add(chunk("c"))
    buffer.put_back(taken)
    assert buffer.is_full
    assert buffer.take() == (chunk("a"), chunk("b"), chunk("c"))
