"""Names of the Redis keys and channels of one namespace (DESIGN 6).

All keys of a session share one hash slot, so a script may touch them together on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SESSION_LETTERS: Final = "mnvphctix"
"""The keys of a session: m state, n node seqs, v messages and p prices by seq, h header,
c context, t transcript seqs, i unclaimed inbox posts by seq, x index of the log."""


@dataclass(frozen=True, slots=True)
class Keys:
    """The key names of a namespace."""

    namespace: str

    def session(self, session_id: str, letter: str) -> str:
        """Return the key of one part of a session (see SESSION_LETTERS)."""
        return f"{self.namespace}:{{{session_id}}}:{letter}"

    def session_keys(self, session_id: str) -> list[str]:
        """Return all keys of a session in the order that the scripts expect (SESSION_LETTERS)."""
        return [self.session(session_id, letter) for letter in SESSION_LETTERS]

    def watermark_channel(self, session_id: str) -> str:
        """Return the channel on which every new watermark of a session is published."""
        return self.session(session_id, "w")

    def lock(self, session_id: str) -> str:
        """Return the key of the compactor's lock."""
        return self.session(session_id, "lock")

    def outcome(self, session_id: str, request_id: str) -> str:
        """Return the key of a compaction request's outcome, and the channel that announces it."""
        return self.session(session_id, f"o:{request_id}")

    def kept_summary(self, session_id: str, digest: str) -> str:
        """Return the key of a summary that is kept until it is published."""
        return self.session(session_id, f"k:{digest}")

    def receipts(self, writer_id: str) -> str:
        """Return the stream of receipts for one writer."""
        return f"{self.namespace}:receipts:{writer_id}"

    @property
    def directory(self) -> str:
        """Sorted set of session ids by last activity in ms."""
        return f"{self.namespace}:directory"

    @property
    def suspects(self) -> str:
        """Set of sessions that a reader found incomplete and the projector should check."""
        return f"{self.namespace}:suspects"

    def position(self, partition: int) -> str:
        """Return the hash with the applied offset of a partition of `events`."""
        return f"{self.namespace}:position:{partition}"

    def watermarks(self, partition: int) -> str:
        """Return the hash session -> watermark noted beside the position, to notice a loss."""
        return f"{self.namespace}:watermarks:{partition}"

    def parked(self, partition: int) -> str:
        """Return the hash session -> JSON of why and where it is parked."""
        return f"{self.namespace}:parked:{partition}"

    def retries(self, partition: int) -> str:
        """Return the sorted set session -> ms at which its next compaction may be asked for."""
        return f"{self.namespace}:retries:{partition}"

    def heartbeat(self, tag: str) -> str:
        """Return the heartbeat of the Redis node that owns the slot of `tag`."""
        return f"{self.namespace}:heartbeat:{{{tag}}}"
