"""The Surface of every session in Redis: how it is written and read back (DESIGN 6)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from redis.exceptions import ResponseError

from surfacelog.projections.keys import Keys
from surfacelog.projections.log_index import index_entry
from surfacelog.schemas.errors import SurfacelogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from surfacelog.projections.pressure import Asked
    from surfacelog.projections.redis_calls import Argument, Command, RedisCalls
    from surfacelog.projections.session_change import SessionChange

TRANSCRIPT_CAP: Final = 10_000

Status = Literal["applied", "older", "gap", "lost", "refused"]


class LostError(SurfacelogError):
    """What Redis holds of a session is no state of it: it must be made anew from the log."""

    code = "lost"


class ApplyOutcome(NamedTuple):
    """What became of a change: `refused` is Redis's own error, told in `reason`."""

    status: Status
    watermark: int
    reason: str = ""


class AuditOutcome(NamedTuple):
    """Why a session must be rebuilt ("" when it is whole), and its last activity in ms."""

    reason: str
    activity: int | None


@dataclass(frozen=True, slots=True)
class StoredSession:
    """What the projector reads back; `nodes` and `prices` are empty unless asked for."""

    fields: dict[str, str] = field(default_factory=dict)
    header: str | None = None
    nodes: tuple[int, ...] = ()
    prices: dict[int, int] = field(default_factory=dict)


class SurfaceStore:
    """Builds the commands of the session keys and reads their answers; see `RedisCalls.run`."""

    def __init__(self, calls: RedisCalls, namespace: str) -> None:
        self.calls = calls
        self.keys = Keys(namespace)

    def apply(self, change: SessionChange) -> Command:
        """Return the command that applies a change if it is the session's next one."""
        return self.calls.script(
            "apply",
            self.keys.session_keys(change.session_id),
            [
                change.first_seq,
                change.next_seq,
                change.offset,
                index_entry(change.first_seq, change.offset),
                self.keys.watermark_channel(change.session_id),
                TRANSCRIPT_CAP,
                *_operations(change),
            ],
        )

    @staticmethod
    def applied(answer: Any) -> ApplyOutcome:
        """Return what an `apply` command answered."""
        if isinstance(answer, ResponseError):
            return ApplyOutcome("refused", -1, str(answer))
        return ApplyOutcome(answer[0].decode(), int(answer[1]))

    def load(self, session_id: str, *, surface: bool) -> Command:
        """Return the command that reads a session back, `surface` = with nodes and prices."""
        return self.calls.script("state", self.keys.session_keys(session_id), [int(surface)])

    @staticmethod
    def loaded(answer: Any) -> StoredSession:
        """Return the session that a `load` command answered; one without fields is unknown.

        Raises LostError when a key holds something else, or the state lacks its positions.
        """
        if isinstance(answer, ResponseError):
            raise LostError(f"the session's keys cannot be read: {answer}")
        state, header, nodes, prices = answer
        if state and not {b"watermark", b"offset"} <= set(state[::2]):
            raise LostError("the session's state lacks its positions")
        return StoredSession(
            {name.decode(): value.decode() for name, value in pairs(state)},
            header.decode() if header is not None else None,
            tuple(map(int, nodes)),
            {int(seq): int(price) for seq, price in pairs(prices)},
        )

    def audit(self, session_id: str, watermark: int) -> Command:
        """Return the command that compares a session with its sizes and a known watermark."""
        return self.calls.script("audit", self.keys.session_keys(session_id), [watermark])

    @staticmethod
    def audited(answer: Any) -> AuditOutcome:
        """Return what an `audit` command answered."""
        if isinstance(answer, ResponseError):
            return AuditOutcome(str(answer), None)
        reason, activity = answer
        return AuditOutcome(reason.decode(), int(activity) if activity else None)

    def asked(self, session_id: str, asked: Asked) -> Command:
        """Return the command that notes which compaction was asked for last."""
        key = self.keys.session(session_id, "m")
        return self.calls.script("asked", [key], [asked.to_text()])

    def remove(self, session_id: str) -> Command:
        """Return the command that removes a session's keys before it is rebuilt."""
        return ("DEL", *self.keys.session_keys(session_id))

    def active(self, session_id: str, activity: int) -> Command:
        """Return the command that lists a session in the directory with its last activity."""
        return ("ZADD", self.keys.directory, activity, session_id)


def pairs(flat: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over a flat answer of names and values."""
    return zip(flat[::2], flat[1::2], strict=True)


def _operations(change: SessionChange) -> Iterator[Argument]:
    """Spell a change as the script's operations: name, number of arguments, arguments."""
    yield from _operation("set", _flat(change.fields.items()))
    if change.nodes is None:
        yield from _operation("push", change.pushed)
    else:
        yield from _operation("nodes", change.nodes)
    # Dropped before written: a node that was pushed and shadowed in one append is in neither.
    yield from _operation("drop", change.dropped)
    yield from _operation("message", _flat(change.messages.items()))
    yield from _operation("price", _flat(change.prices.items()))
    yield from _operation("transcript", change.transcript)
    yield from _operation("post", _flat(change.posts.items()))
    yield from _operation("claim", change.claims)
    yield from _operation("header", [] if change.header is None else [change.header])
    yield from _operation("context", [] if change.context is None else [change.context])


def _operation(name: str, arguments: Sequence[Argument]) -> Iterator[Argument]:
    if arguments:
        yield name
        yield len(arguments)
        yield from arguments


def _flat(members: Iterable[tuple[Argument, Argument]]) -> list[Argument]:
    return [part for member in members for part in member]
