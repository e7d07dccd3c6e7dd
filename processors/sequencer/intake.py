"""From a record of a request topic to its answer: the batch for the log and the receipt.

What needs only the record is checked first (DESIGN 4: decodable, ids, partition, size), then
`admit` decides against the session's state. A record that breaks any rule is answered and costs
nobody else anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import structlog

from surfacelog.processors.sequencer.metrics import POISONED, UNANSWERABLE
from surfacelog.projections.admission import Admitted, Duplicate, Refused, admit
from surfacelog.projections.session_state import SessionState
from surfacelog.schemas.chain import chain
from surfacelog.schemas.codec import DecodedRequest, DecodeError
from surfacelog.schemas.errors import ServiceError
from surfacelog.schemas.event_types import ROLES
from surfacelog.schemas.ids import is_valid_id
from surfacelog.schemas.records import Receipt
from surfacelog.schemas.topics import partition_of

if TYPE_CHECKING:
    from surfacelog.processors.sequencer.partition import Overlay
    from surfacelog.processors.sequencer.record import Record
    from surfacelog.schemas.codec import Codec
    from surfacelog.schemas.event_types import Role
    from surfacelog.schemas.records import AppendRequest, EventBatch
    from surfacelog.schemas.topics import Topics

RECORD_OVERHEAD: Final = 4096
"""What Kafka's own framing may add to a key and a value, generously."""

MESSAGE_LENGTH: Final = 1000
"""The longest text of a refusal: it may quote the request, which may be large."""

ID_LENGTH: Final = 512
"""Ids longer than this get no answer: nobody reads receipts under them."""

_log = structlog.get_logger()


class Misfit(NamedTuple):
    """A record that is refused before any state is looked at; `request` is what it could tell."""

    code: str
    message: str
    request: AppendRequest | None


Intention: TypeAlias = "DecodedRequest | Misfit"


class Answer(NamedTuple):
    """Encoded records for `events` and `receipts`. `outcome` is the receipt's code or status."""

    session_id: str
    key: bytes
    batch: bytes | None
    receipt: bytes
    outcome: str


class Intake:
    """Reads and answers requests. `largest_record` is the limit of the topics in bytes."""

    def __init__(
        self,
        codec: Codec,
        topics: Topics,
        partitions: int,
        *,
        largest_append: int,
        largest_record: int,
    ) -> None:
        self._codec = codec
        self._partitions = partitions
        self._largest_append = largest_append
        self._largest_record = largest_record
        self._roles: dict[str, frozenset[Role]] = {
            topic: frozenset(role for role in ROLES if topics.for_role(role) == topic)
            for topic in topics.requests
        }

    def read(self, record: Record) -> Intention:
        """Decode a record, whatever it is."""
        value = record.value()
        if value is None:
            return Misfit("malformed", "a record without a value is no append request", None)
        if len(value) > self._largest_append:
            message = f"{len(value)} bytes, but an append has at most {self._largest_append}"
            return Misfit("too_large", f"{message}: split it", self._codec.request_head(value))
        try:
            decoded = self._codec.decode_request(value)
        except DecodeError as error:
            return Misfit("malformed", error.message, self._codec.request_head(value))
        except ServiceError as error:
            # Written with a schema of others, which the registry cannot be asked for now. Who
            # wrote it cannot be told either; a writer that gets no answer sends it again.
            return Misfit("malformed", error.message, None)
        except Exception as defect:  # noqa: BLE001  # see PoisonedRecordError: nothing else is touched yet
            _log.exception(
                "a record cannot be decoded", topic=record.topic(), offset=record.offset()
            )
            return Misfit("malformed", f"the sequencer failed to decode it: {defect}", None)
        if record.key() != decoded.request.session_id.encode():
            return Misfit(
                "session_mismatch",
                f"the record's key is not the session id {decoded.request.session_id}",
                decoded.request,
            )
        return decoded

    def answer(
        self, intention: Intention, record: Record, overlay: Overlay, now: int
    ) -> Answer | None:
        """Admit or refuse; an admitted append is applied to the overlay's state.

        Returns None, after counting it, for a record that names nobody to answer.
        """
        if isinstance(intention, Misfit):
            return self.refuse(intention, record)
        request = intention.request
        state = overlay.state(request.session_id)
        # A session that is known here was on the right partition when it was opened; an id that
        # no session may have is refused as such by `admit`.
        if state is None and is_valid_id(request.session_id):
            home = partition_of(request.session_id, self._partitions)
            if home != record.partition():
                message = f"belongs on partition {home}, not {record.partition()}: use murmur2"
                return self.refuse(Misfit("partition", message, request), record)
        roles = self._roles[record.topic()]
        decision = admit(state, request, intention.digest, topic_role_set=roles, now=now)
        if isinstance(decision, Admitted):
            return self._admitted(decision, intention, state, overlay)
        return self._answer(request, decision)

    def refuse(self, misfit: Misfit, record: Record) -> Answer | None:
        """Return the refusal of a record that is not even looked at."""
        request = misfit.request
        if request is None or len(request.session_id) + len(request.writer_id) > ID_LENGTH:
            UNANSWERABLE.inc()
            _log.warning(
                "a record that nobody can be told about",
                code=misfit.code,
                reason=misfit.message[:MESSAGE_LENGTH],
                topic=record.topic(),
                partition=record.partition(),
                offset=record.offset(),
            )
            return None
        return self._answer(request, Refused(misfit.code, misfit.message))

    def refuse_poisoned(self, record: Record) -> Answer | None:
        """Return the refusal of a record whose admission failed unforeseen (see `errors`)."""
        POISONED.inc()
        value = record.value()
        head = None if value is None else self._codec.request_head(value)
        message = "the sequencer failed on this append and has logged why: report it"
        return self.refuse(Misfit("malformed", message, head), record)

    def _admitted(
        self,
        admitted: Admitted,
        intention: DecodedRequest,
        state: SessionState | None,
        overlay: Overlay,
    ) -> Answer:
        base = SessionState.new(admitted.batch.session_id) if state is None else state
        events = intention.events if admitted.as_sent else None
        if events is None:
            events = self._codec.encode_items(admitted.batch.items)
        batch = admitted.batch
        batch.chain = chain(base.chain, batch, events)
        payload = self._codec.encode_batch(batch, events)
        if len(payload) + RECORD_OVERHEAD > self._largest_record:
            return self._answer(intention.request, self._too_large(payload))
        owned = overlay.own_state(base)
        if not owned.apply(batch):
            raise AssertionError(f"an admitted batch at seq {batch.first_seq} did not apply")
        return self._committed(intention.request, batch, owned.next_seq, payload)

    def _too_large(self, payload: bytes) -> Refused:
        return Refused(
            "too_large",
            f"{len(payload)} bytes in the log, but a record has at most {self._largest_record}:"
            " split the append",
        )

    def _committed(
        self, request: AppendRequest, batch: EventBatch, following: int, payload: bytes
    ) -> Answer:
        first = batch.first_seq
        empty = first == following
        receipt = Receipt(
            request.session_id,
            request.writer_id,
            request.append_seq,
            request.attempt,
            "committed",
            None if empty else first,
            None if empty else following - 1,
            batch.epoch,
        )
        session_id = request.session_id
        encoded = self._codec.encode_receipt(receipt)
        return Answer(session_id, session_id.encode(), payload, encoded, "committed")

    def _answer(self, request: AppendRequest, decision: Duplicate | Refused) -> Answer:
        identity = (request.session_id, request.writer_id, request.append_seq, request.attempt)
        if isinstance(decision, Duplicate):
            receipt = Receipt(
                *identity, "duplicate", decision.first_seq, decision.last_seq, decision.epoch
            )
        else:
            receipt = Receipt(
                *identity,
                "refused",
                code=decision.code,
                event_index=decision.event_index,
                message=decision.message[:MESSAGE_LENGTH],
            )
        session_id, outcome = request.session_id, receipt.code or receipt.status
        encoded = self._codec.encode_receipt(receipt)
        return Answer(session_id, session_id.encode(), None, encoded, outcome)
