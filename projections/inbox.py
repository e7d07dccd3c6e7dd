"""The inbox of a session: posts of other agents, which the owner claims (DESIGN 4: roles).

A post is a `surfacelog/inbox-posted` event. It is claimed by the first user/message that cites
it, and only once.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from surfacelog.projections.snapshot_columns import differences
from surfacelog.schemas.errors import AdmissionError
from surfacelog.schemas.surface_form import cited_seqs

if TYPE_CHECKING:
    from surfacelog.schemas.json_value import JsonObject, JsonValue

MAX_UNCLAIMED: Final = 1000


class Inbox:
    """The seqs of the posts: `unclaimed` in order of arrival, `claimed` ascending."""

    __slots__ = ("claimed", "unclaimed")

    def __init__(
        self, unclaimed: list[int] | None = None, claimed: list[int] | None = None
    ) -> None:
        self.unclaimed: list[int] = [] if unclaimed is None else unclaimed
        self.claimed: list[int] = [] if claimed is None else claimed

    def copy(self) -> Inbox:
        """Return an independent copy."""
        return Inbox(self.unclaimed.copy(), self.claimed.copy())

    def to_json(self) -> JsonValue:
        """Return a compact form for snapshots."""
        return [differences(self.unclaimed), differences(self.claimed)]

    @classmethod
    def from_json(cls, value: Any) -> Inbox:
        """Return what `to_json` was given."""
        unclaimed, claimed = value
        return cls(list(accumulate(unclaimed)), list(accumulate(claimed)))

    def check_post(self) -> None:
        """Raise AdmissionError `inbox.full` when too many posts wait already."""
        if len(self.unclaimed) >= MAX_UNCLAIMED:
            raise AdmissionError(
                "inbox.full",
                f"{MAX_UNCLAIMED} posts wait unclaimed: try again after the owner's turn",
            )

    def check_claim(self, event: JsonObject, *, by_owner: bool) -> None:
        """Raise AdmissionError `inbox.claimed` or `role` for a claim that cannot be made."""
        for seq in cited_seqs(event):
            if self._is_claimed(seq):
                raise AdmissionError(
                    "inbox.claimed", f"the post {seq} is claimed already: leave it out"
                )
            if not by_owner and seq in self.unclaimed:
                raise AdmissionError(
                    "role", f"only the owner claims a post ({seq}): do not cite it"
                )

    def post(self, seq: int) -> None:
        """Fold a post."""
        self.unclaimed.append(seq)

    def claim(self, event: JsonObject) -> None:
        """Fold a user/message: it claims each waiting post that it cites."""
        for seq in cited_seqs(event):
            if seq in self.unclaimed:
                self.unclaimed.remove(seq)
                insort(self.claimed, seq)

    def _is_claimed(self, seq: int) -> bool:
        place = bisect_left(self.claimed, seq)
        return place < len(self.claimed) and self.claimed[place] == seq
