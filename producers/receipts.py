"""A writer's receipts, read from the Redis stream into which the projector puts them."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Any, Final

import structlog
from redis.exceptions import RedisError
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from surfacelog.projections.redis_calls import connect_redis
from surfacelog.schemas.errors import ServiceError
from surfacelog.schemas.json_text import loads
from surfacelog.schemas.records import Receipt

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenacity import RetryCallState

    from surfacelog.projections.redis_calls import RedisClient

BLOCK_MS: Final = 1_000
READ_COUNT: Final = 200
BEGINNING: Final = b"0-0"

_FIELDS: Final = frozenset(field.name for field in dataclasses.fields(Receipt))

_log = structlog.get_logger()


class ReceiptStream:
    """Follows one writer's stream for as long as it takes: Redis may be away or emptied.

    Nothing is lost by that but time: a receipt that does not come is asked for with a resend.
    """

    def __init__(self, url: str, key: str, deliver: Callable[[Receipt], None]) -> None:
        self._url = url
        self._key = key
        self._deliver = deliver
        self._last = BEGINNING
        self._client: RedisClient | None = None

    async def follow(self) -> None:
        """Deliver every receipt, old ones first, until cancelled."""
        try:
            while True:
                await self._patiently()
        finally:
            if self._client is not None:
                await self._client.aclose()

    async def _patiently(self) -> None:
        retrying = AsyncRetrying(
            retry=retry_if_exception_type((RedisError, OSError, ServiceError)),
            wait=wait_random_exponential(multiplier=0.05, max=1.0),
            before_sleep=self._report,
        )
        await retrying(self._read)

    async def _read(self) -> None:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # `wait_for` of Python 3.11, inside redis-py, swallows a cancel that comes as it ends.
            raise asyncio.CancelledError
        if self._client is None:
            self._client = await connect_redis(self._url)
        streams: dict[Any, Any] = {self._key: self._last}
        found: Any = await self._client.xread(streams, count=READ_COUNT, block=BLOCK_MS)
        if not found:
            await self._notice_a_reset()
            return
        # A list of pairs, or with the newer protocol a mapping to a list of lists.
        entries = found[0][1] if isinstance(found, list) else next(iter(found.values()))[0]
        for entry_id, fields in entries:
            self._last = entry_id
            receipt = _parse(fields[b"receipt"])
            if receipt is not None:
                self._deliver(receipt)

    async def _notice_a_reset(self) -> None:
        """Begin again when the stream ends before the last entry read: Redis was emptied.

        Its clock may have gone back too (another node, an older dump), and then entries that are
        new would have smaller ids than the last one read.
        """
        assert self._client is not None
        newest: Any = await self._client.xrevrange(self._key, count=1)
        if not newest or _order(newest[0][0]) < _order(self._last):
            self._last = BEGINNING

    def _report(self, attempt: RetryCallState) -> None:
        if attempt.attempt_number in (1, 5) or attempt.attempt_number % 30 == 0:
            error = attempt.outcome.exception() if attempt.outcome else None
            _log.warning("receipts interrupted", stream=self._key, error=str(error))


def _order(entry_id: bytes) -> tuple[int, int]:
    milliseconds, _, count = entry_id.partition(b"-")
    return int(milliseconds), int(count)


def _parse(text: bytes) -> Receipt | None:
    """Return the receipt; fields that this version does not know are left aside."""
    value = loads(text.decode())
    if not isinstance(value, dict):
        _log.error("not a receipt", text=text[:200])
        return None
    known: dict[str, Any] = {name: field for name, field in value.items() if name in _FIELDS}
    return Receipt(**known)
