"""The schema registry: register our schemas, fetch the ones that others wrote with."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import httpx2  # what the registry client raises from when there is no answer
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from tenacity import retry, retry_if_exception, stop_after_attempt

from surfacelog.schemas.avro_schema import NAMESPACE, AvroSchema, record_schema, schema_text
from surfacelog.schemas.codec import RECORD_NAMES, Codec, DecodeError, WireSchemas
from surfacelog.schemas.errors import ServiceError

if TYPE_CHECKING:
    from surfacelog.schemas.settings import Settings

COMPATIBILITY: Final = "FULL_TRANSITIVE"
"""Old readers read new records and new readers old ones, whatever the distance (DESIGN 3)."""

ANSWER_SECONDS: Final = 5.0
"""How long one answer of the registry may take; the client's own limit is none."""

RETRIES: Final = 1
AWAY_SECONDS: Final = 5.0
"""How long it is not asked again for foreign schemas: each question holds its asker up."""

UNKNOWN_FOR_SECONDS: Final = 30.0
"""How long an id stays unknown, so that garbage in a topic does not become load on the registry."""

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


class RegistryError(ServiceError):
    """The schema registry did not answer, or refuses a schema of ours."""

    code = "registry"


def connect_codec(settings: Settings) -> Codec:
    """Return a codec whose schemas are registered. Raises RegistryError.

    Idempotent, and safe when many processes start at once: a schema that is there already gets
    the id that it has.
    """
    client = SchemaRegistryClient(
        {"url": settings.registry, "timeout": ANSWER_SECONDS, "max.retries": RETRIES}
    )
    own = {name: record_schema(name) for name in RECORD_NAMES}
    ids = {name: register(client, schema) for name, schema in own.items()}
    return Codec(WireSchemas(own, ids, ForeignSchemas(client)))


def subject_of(record: dict[str, Any]) -> str:
    """Return the subject of a record: its full name (RecordNameStrategy)."""
    return f"{record.get('namespace', NAMESPACE)}.{record['name']}"


def register(client: SchemaRegistryClient, schema: dict[str, Any]) -> int:
    """Register a schema under its subject, which from then on is FULL_TRANSITIVE; return its id."""
    subject = subject_of(schema)
    try:
        schema_id: int = client.register_schema(subject, Schema(schema_text(schema), "AVRO"))
        _set_compatibility(client, subject)
    except SchemaRegistryError as error:
        if _is_conflict(error):
            message = f"{subject} is registered with a schema that ours is not compatible with"
            raise RegistryError(message, subject=subject) from error
        raise RegistryError(f"{subject} cannot be registered: {error}") from error
    except httpx2.HTTPError as error:
        raise RegistryError(f"the schema registry does not answer: {error}") from error
    return schema_id


def _is_conflict(error: BaseException) -> bool:
    return isinstance(error, SchemaRegistryError) and error.http_status_code == _CONFLICT


# Of processes that set it for the first time at once, one is told that the rule exists already.
@retry(retry=retry_if_exception(_is_conflict), stop=stop_after_attempt(3), reraise=True)
def _set_compatibility(client: SchemaRegistryClient, subject: str) -> None:
    client.set_compatibility(subject, COMPATIBILITY)


class ForeignSchemas:
    """Finds schemas by id. Found ones are kept for good, because an id never changes."""

    def __init__(self, client: SchemaRegistryClient) -> None:
        self._client = client
        self._unknown: dict[int, float] = {}
        self._away_until = 0.0

    def __call__(self, schema_id: int) -> AvroSchema:
        """Return the parsed schema.

        DecodeError when it is unknown or not Avro, RegistryError when the registry does not say.
        """
        if self._unknown.get(schema_id, 0.0) > time.monotonic():
            raise DecodeError(f"schema {schema_id} is unknown to the registry")
        schema = self._fetch(schema_id)
        if (schema.schema_type or "AVRO") != "AVRO" or not schema.schema_str:
            raise DecodeError(f"schema {schema_id} is not Avro")
        parsed: AvroSchema = json.loads(schema.schema_str)
        return parsed

    def _fetch(self, schema_id: int) -> Schema:
        if time.monotonic() < self._away_until:
            raise RegistryError("the schema registry did not answer a moment ago")
        try:
            return self._client.get_schema(schema_id)
        except SchemaRegistryError as error:
            if error.http_status_code != _NOT_FOUND:
                raise RegistryError(f"schema {schema_id} cannot be fetched: {error}") from error
            self._forget_old()
            self._unknown[schema_id] = time.monotonic() + UNKNOWN_FOR_SECONDS
            raise DecodeError(f"schema {schema_id} is unknown to the registry") from error
        except httpx2.HTTPError as error:
            self._away_until = time.monotonic() + AWAY_SECONDS
            raise RegistryError(f"the schema registry does not answer: {error}") from error

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._unknown = {key: until for key, until in self._unknown.items() if until > now}
