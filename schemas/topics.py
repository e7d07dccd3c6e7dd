"""Names of topics, groups and keys of one namespace, and the partitioner that all must share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from surfacelog.schemas.event_types import Role

MARKER_KEY_PREFIX: Final = b"\x00marker:"
"""First bytes of a snapshot marker's key: no session id begins with a zero byte."""

REQUEST_RETENTION_MS: Final = 24 * 60 * 60 * 1000
"""Retention of the request topics. A writer idle for longer is forgotten (DESIGN 4), by every
sequencer alike: that is why it is no setting."""

WRITER_IDLE_SECONDS: Final = REQUEST_RETENTION_MS / 1000 / 2
"""For how long a writer that is silent, or waits for an answer, can be sure to be remembered."""


@dataclass(frozen=True, slots=True)
class Topics:
    """The topic names of a namespace (DESIGN 3)."""

    namespace: str

    @property
    def appends(self) -> str:
        """Requests of owners."""
        return f"{self.namespace}.appends"

    @property
    def inbox(self) -> str:
        """Requests of contributors."""
        return f"{self.namespace}.inbox"

    @property
    def control(self) -> str:
        """Requests of compactors, operators and importers."""
        return f"{self.namespace}.control"

    @property
    def events(self) -> str:
        """The log."""
        return f"{self.namespace}.events"

    @property
    def receipts(self) -> str:
        """The sequencer's answers."""
        return f"{self.namespace}.receipts"

    @property
    def sessions(self) -> str:
        """The sequencer's snapshots and markers (compacted)."""
        return f"{self.namespace}.sessions"

    @property
    def compactions(self) -> str:
        """Requests for compactions."""
        return f"{self.namespace}.compactions"

    @property
    def compactors(self) -> str:
        """The consumer group of the compactors: its offsets say which requests are over."""
        return f"{self.namespace}.compactor"

    @property
    def requests(self) -> tuple[str, str, str]:
        """The three request topics, in the order in which a sequencer subscribes to them."""
        return (self.appends, self.inbox, self.control)

    @property
    def all(self) -> tuple[str, ...]:
        """Every topic of the namespace."""
        return (*self.requests, self.events, self.receipts, self.sessions, self.compactions)

    def for_role(self, role: Role) -> str:
        """Return the only topic from which a role is admitted (trust is a topic, DESIGN 3)."""
        if role == "owner":
            return self.appends
        return self.inbox if role == "contributor" else self.control


def partition_of(session_id: str, partitions: int) -> int:
    """Return the partition of a session: Kafka's murmur2 of the UTF-8 id."""
    return (murmur2(session_id.encode()) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 of `data` as an unsigned integer."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15
