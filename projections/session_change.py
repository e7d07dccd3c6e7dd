"""What one append changes in the stored Surface of its session, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class SessionChange:
    """The effect of one append, to be applied if and only if it is the session's next one.

    `nodes` replaces the whole list of node seqs and is set after a replacement only; otherwise
    `pushed` are appended to it. `messages`, `prices` and `posts` are by seq; messages, posts,
    `header` and `context` are JSON text. `fields` are members of the state hash.
    """

    session_id: str
    first_seq: int
    next_seq: int
    offset: int
    fields: dict[str, str | int] = field(default_factory=dict)
    pushed: list[int] = field(default_factory=list)
    nodes: list[int] | None = None
    dropped: list[int] = field(default_factory=list)
    messages: dict[int, str] = field(default_factory=dict)
    prices: dict[int, int] = field(default_factory=dict)
    transcript: list[int] = field(default_factory=list)
    posts: dict[int, str] = field(default_factory=dict)
    claims: list[int] = field(default_factory=list)
    header: str | None = None
    context: str | None = None
