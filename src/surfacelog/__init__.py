"""surfacelog: the session bus for fleets of AI agents.

An append-only, typed, contiguous event log per session on Kafka; the model-visible Surface
and the request header as projections in Redis; compaction that replaces a span of the Surface
with a checkpoint and deletes nothing.
"""
