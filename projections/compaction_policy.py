"""When a session is compacted and how much of it stays (SEMANTICS 6).

Settings hold for every model; `model_policies` override them for an exact provider and model.
A policy scaled to a model's window gives token budgets.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import floor, isfinite
from typing import TYPE_CHECKING, Any, ClassVar, Final

from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.json_value import is_number, object_member, text_member

if TYPE_CHECKING:
    from collections.abc import Mapping

    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings


class PolicyError(SurfacelogError):
    """The settings contradict each other, or are out of range; the message says which."""

    code: ClassVar[str] = "compaction_policy"


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """What holds for one model.

    The context is compacted from `threshold_ratio` of its window on, and the tail that stays is
    worth `retain_tokens`, or `retain_ratio` of the window when that is None. A summary has at
    most `max_tokens`. While a round leaves the context above the threshold it is followed by
    another one, `compaction_retries` times; one request to the model may overflow, and be
    compacted for, `max_overflow_retries` times. An empty summarization model means what the
    summarizer's own settings say.
    """

    threshold_ratio: float = 0.8
    retain_ratio: float | None = 0.16
    retain_tokens: int | None = None
    summarization_provider: str = ""
    summarization_model: str = ""
    max_tokens: int = 8192
    compaction_retries: int = 1
    max_overflow_retries: int = 1


@dataclass(frozen=True, slots=True)
class CompactionBudget:
    """A policy scaled to a window, all in tokens: compact from `threshold` on, keep `retain`."""

    window: int
    threshold: int
    retain: int


@dataclass(frozen=True, slots=True)
class CompactionPolicies:
    """The default policy and its overrides by (provider, model)."""

    default: CompactionPolicy
    overrides: Mapping[tuple[str, str], Mapping[str, Any]]
    automatic: bool = True

    def policy(self, provider: str, model: str) -> CompactionPolicy:
        """Return the policy for an exact provider and model."""
        return _override(self.default, self.overrides.get((provider, model), {}))

    def in_force(self, header: JsonObject | None) -> CompactionPolicy:
        """Return the policy for the model that a request header names."""
        config = object_member(header, "config")
        provider, model = text_member(config, "provider"), text_member(config, "model")
        return self.policy(provider or "", model or "")


def configured_policies(settings: Settings) -> CompactionPolicies:
    """Return the policies of the settings; PolicyError when they contradict each other."""
    configured = {
        "threshold_ratio": settings.compaction_threshold_ratio,
        "retain_ratio": settings.compaction_retain_ratio,
        "retain_tokens": settings.compaction_retain_tokens,
        "max_tokens": settings.compaction_max_tokens,
        "compaction_retries": settings.compaction_retries,
        "max_overflow_retries": settings.compaction_max_overflow_retries,
        "auto": settings.compaction_auto,
    }
    overrides = [one.model_dump(exclude_none=True) for one in settings.compaction_model_policies]
    for override in overrides:
        if "summarization_model" in override:
            override["summarization_provider"] = settings.summarizer
    given = {name: value for name, value in configured.items() if value is not None}
    return policies({**given, "model_policies": overrides})


def policies(settings: Mapping[str, Any]) -> CompactionPolicies:
    """Return the policies of settings that are named as the fields of `CompactionPolicy`.

    `auto` False switches the pressure trigger off; `model_policies` is a list of overrides, each
    with its `provider` and `model`. Raises PolicyError.
    """
    own = {name: value for name, value in settings.items() if name in _FIELDS}
    _check_names(settings, _FIELDS | {"model_policies", "auto"}, "the settings")
    _check_fields(own, "the settings")
    automatic = settings.get("auto", True)
    if not isinstance(automatic, bool):
        raise PolicyError("auto is true or false")
    default = _override(CompactionPolicy(), own)
    _check_ratios(default, "the settings")
    overrides = _overrides(settings.get("model_policies", []))
    for (provider, model), override in overrides.items():
        _check_ratios(_override(default, override), f"the policy for {provider}/{model}")
    return CompactionPolicies(default, overrides, automatic)


def budget(policy: CompactionPolicy, window: int) -> CompactionBudget:
    """Return a policy's token budgets for a context window; PolicyError when they leave no room."""
    if not _is_integer(window) or window <= 0:
        raise PolicyError(f"a context window of {window} tokens: it is a positive integer")
    threshold = floor(window * policy.threshold_ratio)
    retain = policy.retain_tokens
    if retain is None:
        retain = floor(window * (policy.retain_ratio or 0))
    if retain >= threshold:
        raise PolicyError(
            f"a tail of {retain} tokens is to stay, and a window of {window} is compacted from"
            f" {threshold} on: nothing could be compacted"
        )
    return CompactionBudget(window, threshold, retain)


def _override(policy: CompactionPolicy, changes: Mapping[str, Any]) -> CompactionPolicy:
    """Retention is one choice: giving it as tokens takes the ratio away, and the reverse."""
    changed = dict(changes)
    if changed.get("retain_tokens") is not None:
        changed["retain_ratio"] = None
    elif changed.get("retain_ratio") is not None:
        changed["retain_tokens"] = None
    return replace(policy, **changed)


def _overrides(configured: Any) -> dict[tuple[str, str], Mapping[str, Any]]:
    if not isinstance(configured, list):
        raise PolicyError("model_policies is a list")
    overrides: dict[tuple[str, str], Mapping[str, Any]] = {}
    for place, entry in enumerate(configured):
        name = f"model_policies[{place}]"
        if not isinstance(entry, dict):
            raise PolicyError(f"{name} is an object")
        _check_names(entry, _FIELDS | {"provider", "model"}, name)
        key = (entry.get("provider"), entry.get("model"))
        if not all(isinstance(part, str) and part for part in key):
            raise PolicyError(f"{name} names a provider and a model")
        own = {field: value for field, value in entry.items() if field in _FIELDS}
        _check_fields(own, name)
        if key in overrides:
            raise PolicyError(f"two policies for {key[0]}/{key[1]}")
        overrides[key] = own  # type: ignore[index]  # two texts: just checked
    return overrides


def _check_names(settings: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    unknown = sorted(settings.keys() - known)
    if unknown:
        raise PolicyError(f"{where} have no {', '.join(unknown)}: is it misspelled?")


def _check_fields(own: Mapping[str, Any], where: str) -> None:
    for name, value in own.items():
        if not _CHECKS[name](value):
            raise PolicyError(f"{where}: {name} cannot be {value!r}")
    if "retain_ratio" in own and "retain_tokens" in own:
        ratio, tokens = own["retain_ratio"], own["retain_tokens"]
        raise PolicyError(
            f"{where}: retain_ratio {ratio} and retain_tokens {tokens} exclude each other"
        )
    provider, model = own.get("summarization_provider"), own.get("summarization_model")
    if (provider is None) != (model is None) or bool(provider) != bool(model):
        raise PolicyError(
            f"{where}: summarization_provider and summarization_model are set together"
        )


def _check_ratios(policy: CompactionPolicy, where: str) -> None:
    if policy.retain_ratio is not None and policy.retain_ratio >= policy.threshold_ratio:
        raise PolicyError(
            f"{where}: retain_ratio {policy.retain_ratio} is not below threshold_ratio"
            f" {policy.threshold_ratio}"
        )


def _is_integer(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _is_positive(value: Any) -> bool:
    return _is_integer(value) and value > 0


def _is_count(value: Any) -> bool:
    return _is_integer(value) and value >= 0


def _is_ratio(value: Any) -> bool:
    return is_number(value) and isfinite(value) and 0 < value <= 1


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_FIELDS: Final = frozenset(field.name for field in fields(CompactionPolicy))
_CHECKS: Final = {
    "threshold_ratio": _is_ratio,
    "retain_ratio": _is_ratio,
    "retain_tokens": _is_count,
    "summarization_provider": _is_text,
    "summarization_model": _is_text,
    "max_tokens": _is_positive,
    "compaction_retries": _is_count,
    "max_overflow_retries": _is_count,
}
