"""One settings object (`SURFACELOG_*` environment variables), passed in, never read globally."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from surfacelog.schemas.topics import Topics


class ModelPolicy(BaseModel):
    """When sessions of exactly this provider and model are compacted, where it differs.

    What is left out (None) is as for all models. `retain_ratio` and `retain_tokens` exclude each
    other. `summarization_model` is asked for this model's checkpoints, at the one endpoint.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    provider: str = Field(min_length=1)
    model: str = Field(min_length=1)
    threshold_ratio: float | None = Field(None, gt=0, le=1)
    retain_ratio: float | None = Field(None, gt=0, le=1)
    retain_tokens: int | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, ge=1)
    compaction_retries: int | None = Field(None, ge=0)
    max_overflow_retries: int | None = Field(None, ge=0)
    summarization_model: str | None = Field(None, min_length=1)


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
    compactor_poll_seconds: float = Field(
        300.0,
        ge=6,
        description="A compactor that has not polled for so long loses its partitions. A call of a"
        " model does not keep it from polling.",
    )
    compaction_max_tokens: int = Field(
        8192, ge=1, description="What a checkpoint may cost at most, in tokens."
    )
    compaction_threshold_ratio: float = Field(
        0.8, gt=0, le=1, description="Part of a model's window from which on it is compacted."
    )
    compaction_retain_ratio: float | None = Field(
        None,
        gt=0,
        le=1,
        description="Part of the window that the tail which stays is worth; 0.16 when neither"
        " this nor compaction_retain_tokens is set.",
    )
    compaction_retain_tokens: int | None = Field(
        None, ge=0, description="What the tail that stays is worth, in tokens."
    )
    compaction_auto: bool = Field(
        True, description="Whether sessions are compacted when they pass their threshold."
    )
    compaction_retries: int = Field(
        1,
        ge=0,
        description="Further rounds while one compaction leaves a session above its threshold.",
    )
    compaction_max_overflow_retries: int = Field(
        1,
        ge=0,
        description="How often an owner may have a context overflow compacted away for one and"
        " the same request to the model.",
    )
    compaction_backoff_seconds: float = Field(
        10.0,
        gt=0,
        description="Pause before a failed compaction is asked for again; it doubles with every"
        " failure, up to ten minutes.",
    )
    compaction_model_policies: tuple[ModelPolicy, ...] = Field(
        (), description="Overrides for an exact provider and model, a JSON list."
    )
    summarizer: Literal["extractive", "openai"] = Field(
        "extractive",
        description="Who writes checkpoints: extractive (offline) or openai (a model, by HTTP).",
    )
    summarizer_url: str = Field(
        "",
        pattern=r"^(https?://\S+)?$",
        description="Base URL of an OpenAI-compatible endpoint, e.g. https://api.deepseek.com/v1.",
    )
    summarizer_api_key: SecretStr = Field(
        SecretStr(""), description="Its API key; empty when it wants none."
    )
    summarizer_model: str = Field(
        "", description="The model to ask; empty: the conversation's own."
    )
    summarizer_reasoning: bool = Field(
        True,
        description="Send what the model thought as reasoning_content, as DeepSeek and vLLM read"
        " it; off for endpoints that refuse it.",
    )
    summarizer_silence_seconds: float = Field(
        120.0, gt=0, description="Silence of the endpoint after which a call counts as cut."
    )
    summarizer_seconds: float = Field(
        900.0, gt=0, description="How long one call may take in all: a trickle ends then, too."
    )

    instance: str = Field(
        "",
        pattern=r"^[A-Za-z0-9._-]{0,64}$",
        description="Name of this sequencer among those of the namespace, kept over restarts: a"
        " new process ends its predecessor's open transaction at once instead of waiting for its"
        " timeout. Two live processes must never share one. Empty: a random name.",
    )

    @model_validator(mode="after")
    def _check_summarizer(self) -> Self:
        if self.summarizer == "openai" and not self.summarizer_url:
            raise ValueError(
                "SURFACELOG_SUMMARIZER is openai, but SURFACELOG_SUMMARIZER_URL does not say where"
            )
        called = self.summarizer_url or self.summarizer_model
        if self.summarizer == "extractive" and (called or self.summarizer_api_key):
            raise ValueError(
                "SURFACELOG_SUMMARIZER_URL, _MODEL or _API_KEY is set, but SURFACELOG_SUMMARIZER"
                " is extractive, which calls no model: set it to openai or leave them out"
            )
        asked = [each for each in self.compaction_model_policies if each.summarization_model]
        if self.summarizer == "extractive" and asked:
            raise ValueError(
                f"the policy for {asked[0].provider}/{asked[0].model} names a summarization_model,"
                " but SURFACELOG_SUMMARIZER is extractive, which calls no model"
            )
        return self

    @model_validator(mode="after")
    def _check_retention(self) -> Self:
        ratio, tokens = self.compaction_retain_ratio, self.compaction_retain_tokens
        if ratio is not None and tokens is not None:
            raise ValueError(
                f"SURFACELOG_COMPACTION_RETAIN_RATIO is {ratio} and"
                f" SURFACELOG_COMPACTION_RETAIN_TOKENS is {tokens}: the tail that stays is one or"
                " the other"
            )
        return self

    @property
    def topics(self) -> Topics:
        """The topic names of the namespace."""
        return Topics(self.namespace)
