"""Print the first text of every message on a topic, as any Kafka program would: nothing of ours.

Arguments: bootstrap servers, registry, topic. Reads until the first record has been printed.
"""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any

from confluent_kafka import DeserializingConsumer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer


def main(bootstrap: str, registry: str, topic: str) -> None:
    consumer = DeserializingConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"consumer-{secrets.token_hex(4)}",
            "auto.offset.reset": "earliest",
            "value.deserializer": AvroDeserializer(SchemaRegistryClient({"url": registry})),
        }
    )
    consumer.subscribe([topic])
    record = None
    while record is None:
        record = consumer.poll(1.0)
    batch: Any = record.value()  # a dict: what the deserializer made of it
    for event in batch["events"]:
        message = (event.get("data") or {}).get("message")
        if message and message["content"] and "text" in message["content"][0]:
            sys.stdout.write(json.dumps([event["type"], message["content"][0]["text"]]) + "\n")
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
