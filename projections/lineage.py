"""Session lineage: which session a session was forked or delegated from (SEMANTICS 8, 10).

Session headers tell it alone: `parentSession` names the parent, `seedLength` says how many of
the parent's events the log begins with, under the same seqs. A subagent begins with none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surfacelog.schemas.errors import CorruptLogError, NotFoundError
from surfacelog.schemas.json_value import text_member, whole_member

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from surfacelog.schemas.json_value import JsonObject


@dataclass(frozen=True, slots=True)
class Ancestor:
    """A session that another one comes from.

    `shared` counts the events that the descendant's log begins with and that this one holds too;
    `is_delegator` says that the next session on the way down is a subagent of this one.
    """

    session_id: str
    shared: int
    is_delegator: bool


class Lineage:
    """The family of sessions whose headers are given, in any order."""

    def __init__(self, headers: Iterable[JsonObject]) -> None:
        self._headers = {str(header.get("id")): header for header in headers}

    def ancestors(self, session_id: str) -> tuple[Ancestor, ...]:
        """Return the parent, its parent and so on.

        The last one may be a session whose own header was not given: a log can be imported
        without its parent. Raises NotFoundError for an unknown session, and CorruptLogError when
        the headers make a session its own ancestor.
        """
        return tuple(self._climb(session_id))

    def children(self, session_id: str) -> tuple[str, ...]:
        """Return the sessions that were forked or delegated from this one, known or not."""
        return tuple(
            child
            for child, header in self._headers.items()
            if text_member(header, "parentSession") == session_id
        )

    def origin(self, session_id: str, seq: int) -> str:
        """Return the session in which the event at `seq` was written first, as far as is known.

        Forks keep seqs, so it has the same one there. Raises as `ancestors`.
        """
        found = session_id
        for ancestor in self._climb(session_id):
            if seq >= ancestor.shared:
                break
            found = ancestor.session_id
        return found

    def _climb(self, session_id: str) -> Iterator[Ancestor]:
        if session_id not in self._headers:
            raise NotFoundError(f"no header of session {session_id} is known")
        seen, shared = {session_id}, None
        header: JsonObject | None = self._headers[session_id]
        while header is not None:
            parent = text_member(header, "parentSession")
            if parent is None:
                return
            if parent in seen:
                raise CorruptLogError(f"the session {parent} is its own ancestor")
            seen.add(parent)
            seed = whole_member(header, "seedLength") or 0
            shared = seed if shared is None else min(seed, shared)
            yield Ancestor(parent, shared, is_delegator=header.get("origin") == "subagent")
            header = self._headers.get(parent)
