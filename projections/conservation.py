"""The conservation receipt: what a compaction shadowed, and proof that nothing else changed.

Every figure can be computed again from the log: the Surface as it was at `as_of_seq`, and the
Surface right after the compaction (DESIGN 7, 9).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from surfacelog.schemas.json_text import dumps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surfacelog.schemas.json_value import JsonObject


def nodes_digest(nodes: Iterable[tuple[int, JsonObject | None]]) -> str:
    """Return the SHA-256 (hex) of Surface nodes: one line `[seq,message]` each.

    Messages are compact JSON as the log holds them, key order kept; None for a node that gives
    no message (an assistant message with empty content).
    """
    digest = hashlib.sha256()
    for seq, message in nodes:
        digest.update(dumps([seq, message]).encode())
        digest.update(b"\n")
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class ConservationReceipt:
    """The data of a `surfacelog/compaction-receipt` event.

    `generation` and the token figures are those of the Surface at `as_of_seq`, the last read
    before publishing; `tokens_after` is `tokens_before` with the checkpoint in place of the
    span. The tail is what stood behind the span when the compaction began: `tail_digest_before`
    was taken then, `tail_digest_after` at `as_of_seq`, over the same nodes.
    """

    compaction_id: str
    request_id: str
    trigger: str
    as_of_seq: int
    generation: int
    shadowed_seqs: tuple[int, ...]
    shadowed_digest: str
    shadowed_tokens: int
    checkpoint_tokens: int
    tokens_before: int
    tail_seqs: tuple[int, ...]
    tail_digest_before: str
    tail_digest_after: str
    provider: str
    model: str
    usage: JsonObject | None
    duration_ms: int
    attempts: int

    @property
    def tokens_after(self) -> int:
        """The Surface's tokens with the checkpoint in place of the span."""
        return self.tokens_before - self.shadowed_tokens + self.checkpoint_tokens

    def to_data(self) -> JsonObject:
        """Return the event's data; the shadowed and the tail's nodes also as counts."""
        return {
            "compactionId": self.compaction_id,
            "requestId": self.request_id,
            "trigger": self.trigger,
            "asOfSeq": self.as_of_seq,
            "generation": self.generation,
            "shadowedSeqs": list(self.shadowed_seqs),
            "shadowedCount": len(self.shadowed_seqs),
            "shadowedDigest": self.shadowed_digest,
            "shadowedTokens": self.shadowed_tokens,
            "checkpointTokens": self.checkpoint_tokens,
            "tokensBefore": self.tokens_before,
            "tokensAfter": self.tokens_after,
            "tailSeqs": list(self.tail_seqs),
            "tailCount": len(self.tail_seqs),
            "tailDigestBefore": self.tail_digest_before,
            "tailDigestAfter": self.tail_digest_after,
            "provider": self.provider,
            "model": self.model,
            "usage": self.usage,
            "durationMs": self.duration_ms,
            "attempts": self.attempts,
        }
