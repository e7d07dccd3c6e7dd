"""The local stack: real Kafka, schema registry and Redis as processes of this machine."""
