from __future__ import annotations

import copy
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from tests.codec_cases import DATA, batch_of, recorded_events, spelled

from surfacelog.schemas.avro_schema import record_schema
from surfacelog.schemas.codec import RECORD_NAMES, Codec, DecodeError, WireSchemas
from surfacelog.schemas.registry import (
    COMPATIBILITY,
    ForeignSchemas,
    RegistryError,
    connect_codec,
    register,
    subject_of,
)

if TYPE_CHECKING:
    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services
RECORDING = DATA / "recordings" / "headless-agent-compaction-recovery-session.jsonl"
CONSUMER = Path(__file__).parent / "avro_consumer.py"


@pytest.fixture
def registry(services: Settings) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": services.registry})


@pytest.fixture
def batch_schema(namespace: str) -> dict[str, Any]:
    """The schema of a batch under a subject of this test's own."""
    schema = copy.deepcopy(record_schema("EventBatch"))
    schema["namespace"] = namespace
    return schema


def _fields(schema: Any, record: str) -> list[dict[str, Any]]:
    """Return the fields of a record, wherever in the schema it is written out."""
    if isinstance(schema, dict) and schema.get("name") == record:
        fields: list[dict[str, Any]] = schema["fields"]
        return fields
    children: Any = schema.values() if isinstance(schema, dict) else schema
    for child in children if isinstance(schema, dict | list) else ():
        if found := _fields(child, record):
            return found
    return []


def test_every_record_is_registered_for_good(services: Settings) -> None:
    codec, again = connect_codec(services), connect_codec(services)
    payload = codec.encode_batch(batch_of([]))
    assert again.encode_batch(batch_of([])) == payload
    client = SchemaRegistryClient({"url": services.registry})
    for name in RECORD_NAMES:
        assert client.get_compatibility(f"surfacelog.{name}") == COMPATIBILITY


def test_processes_that_register_the_same_at_once_get_the_same_id(
    services: Settings, namespace: str
) -> None:
    """Seen to fail: the registry answers one of them as if the schema were incompatible."""
    processes = 6
    for number in range(5):
        schema = {"type": "record", "name": f"R{number}", "namespace": namespace, "fields": []}
        together = Barrier(processes)

        def one(schema: dict[str, Any] = schema, together: Barrier = together) -> int:
            client = SchemaRegistryClient({"url": services.registry})
            together.wait(30)
            return register(client, schema)

        with ThreadPoolExecutor(processes) as pool:
            ids = [future.result(30) for future in [pool.submit(one) for _ in range(processes)]]
        assert len(set(ids)) == 1


def test_an_incompatible_change_is_refused(
    registry: SchemaRegistryClient, batch_schema: dict[str, Any]
) -> None:
    register(registry, batch_schema)
    required = copy.deepcopy(batch_schema)
    required["fields"].insert(0, {"name": "required", "type": "string"})
    retyped = copy.deepcopy(batch_schema)
    _fields(retyped, "TurnStart")[0]["type"] = "string"
    branch = copy.deepcopy(batch_schema)
    data = next(field for field in _fields(branch, "SessionEvent") if field["name"] == "data")
    data["type"].append({"type": "record", "name": "Later", "fields": []})
    for changed in (required, retyped, branch):
        with pytest.raises(RegistryError):
            register(registry, changed)


def test_a_newer_optional_field_is_accepted_and_kept(
    registry: SchemaRegistryClient, batch_schema: dict[str, Any]
) -> None:
    newer = copy.deepcopy(batch_schema)
    due = {"name": "due", "type": ["null", "long"], "default": None, "json": "dueDay"}
    _fields(newer, "Todo").insert(1, due)
    old_id, new_id = register(registry, batch_schema), register(registry, newer)
    assert old_id != new_id
    own = {name: record_schema(name) for name in RECORD_NAMES}
    ids = dict.fromkeys(RECORD_NAMES, 0)
    lookup = ForeignSchemas(registry)
    newer_own, newer_ids = own | {"EventBatch": newer}, ids | {"EventBatch": new_id}
    writer = Codec(WireSchemas(newer_own, newer_ids, lookup))
    reader = Codec(WireSchemas(own, ids | {"EventBatch": old_id}, lookup))
    todo = {"content": "a", "dueDay": 3, "status": "open"}
    events: list[Any] = [{"type": "todo/write", "time": 1, "data": {"todos": [todo]}}]
    batch = reader.decode_batch(writer.encode_batch(batch_of(events)))
    assert spelled(list(batch.items)) == spelled(events)  # type: ignore[arg-type]  # no runs
    again = reader.decode_batch(reader.encode_batch(batch))
    assert again == batch


def test_ids_that_the_registry_does_not_know_are_refused(registry: SchemaRegistryClient) -> None:
    lookup = ForeignSchemas(registry)
    for schema_id in (0, 2_000_000_000, 2**31, 2**32 - 1):
        for _ in range(2):  # the second time without asking
            with pytest.raises(DecodeError):
                lookup(schema_id)


def test_a_registry_that_does_not_answer_is_no_fault_of_the_record() -> None:
    client = SchemaRegistryClient({"url": "http://127.0.0.1:9/none", "max.retries": 0})
    with pytest.raises(RegistryError):
        ForeignSchemas(client)(1)
    with pytest.raises(RegistryError):
        register(client, record_schema("Receipt"))
    assert subject_of(record_schema("Receipt")) == "surfacelog.Receipt"


def test_a_consumer_that_knows_only_the_registry_reads_messages(settings: Settings) -> None:
    """The consumer imports nothing of ours: see avro_consumer.py."""
    events = recorded_events(RECORDING)
    producer = Producer({"bootstrap.servers": settings.kafka})
    payload = connect_codec(settings).encode_batch(batch_of(events))
    producer.produce(settings.topics.events, key=b"session-1", value=payload)
    assert producer.flush(20) == 0
    command = [sys.executable, str(CONSUMER), settings.kafka, settings.registry]
    read = subprocess.run(
        [*command, settings.topics.events], capture_output=True, text=True, timeout=60, check=True
    )
    printed = [json.loads(line) for line in read.stdout.splitlines()]
    assert printed == [[event["type"], _first_text(event)] for event in events if _has_text(event)]
    assert {kind for kind, _ in printed} == {"user/message", "assistant/message"}


def _has_text(event: dict[str, Any]) -> bool:
    return _first_text(event) is not None


def _first_text(event: dict[str, Any]) -> str | None:
    data = event["data"]
    message = data if event["type"] == "user/message" else data.get("message", {})
    content = message.get("content") if isinstance(message, dict) else None
    text = content[0].get("text") if content else None
    return text if isinstance(text, str) else None
