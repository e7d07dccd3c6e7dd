"""One settings object (`SURFACELOG_*` environment variables), passed in, never read globally."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from surfacelog.schemas.topics import Topics


class Settings(BaseSettings):
    """Where the services are and how large things may get."""

    model_config = SettingsConfigDict(env_prefix="SURFACELOG_", frozen=True)

    kafka: str = Field("127.0.0.1:9092", description="Kafka bootstrap servers, host:port[,...].")
    registry: str = Field(
        "http://127.0.0.1:8081", description="Schema registry, base URL of the Confluent API."
    )
    redis: str = Field("redis://127.0.0.1:6379/0", description="Redis or Valkey URL.")
    namespace: str = Field(
        "surfacelog",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="Prefix of every topic, group and key; the tenant boundary.",
    )
    partitions: int = Field(
        6, ge=1, le=1024, description="Partitions of a new namespace; pinned once it is made."
    )
    replication: int = Field(1, ge=1, description="Replication factor of a new namespace.")
    max_append_bytes: int = Field(
        8 * 1024 * 1024, ge=1024, description="Largest append request in bytes."
    )
    compactor_concurrency: int = Field(
        4, ge=1, description="Compactions that one compactor carries out at once."
    )
    compactor_lock_seconds: float = Field(
        30.0, gt=0, description="Time to live of a session's lock; renewed at a third of it."
    )
    compaction_max_tokens: int = Field(
        8192, ge=1, description="What a checkpoint may cost at most, in tokens."
    )

    instance: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]{0,64}$",
        description="Name of this sequencer among those of the namespace, kept over restarts: a"
        " new process ends its predecessor's open transaction at once instead of waiting for its"
        " timeout. Two live processes must never share one. Empty: a random name.",
    )

    @property
    def topics(self) -> Topics:
        """The topic names of the namespace."""
        return Topics(self.namespace)
