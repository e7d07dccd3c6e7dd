"""Who wrote a message (SEMANTICS 1). The list of kinds is open; `form` is one of a plugin's."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Discriminator, Tag, model_validator

from surfacelog.schemas.models.json_model import JsonModel

COMPACT_PLUGIN: Final = "compact"


class UserSource(JsonModel):
    """A person."""

    kind: Literal["user"] = "user"


class Section(JsonModel):
    """A part of a snapshot of dynamic context."""

    name: str
    text: str


class PluginSource(JsonModel):
    """A plugin of the agent. A snapshot has sections, a notice a summary."""

    kind: Literal["plugin"] = "plugin"
    plugin: str
    form: str | None = None
    sections: list[Section] | None = None
    summary: str | None = None
    compaction_id: str | None = None
    source_command_id: str | None = None

    @model_validator(mode="after")
    def _form_has_its_members(self) -> Self:
        if self.form == "snapshot" and self.sections is None:
            raise ValueError("a snapshot needs sections")
        if self.form == "notice" and self.summary is None:
            raise ValueError("a notice needs a summary")
        return self


class ModelSource(JsonModel):
    """The model that wrote a message; `replay_state` is the provider's own."""

    kind: Literal["model"] = "model"
    provider: str
    model: str
    replay_state: Any = None


class ToolSource(JsonModel):
    """The call that a message answers."""

    kind: Literal["tool"] = "tool"
    call_id: str


class OtherSource(JsonModel):
    """A source of a kind that has no model here; its members are kept."""

    kind: str


def _kind(value: Any) -> str:
    kind = value.get("kind") if isinstance(value, dict) else getattr(value, "kind", None)
    return kind if kind in ("user", "plugin") else "other"


Source = Annotated[
    Annotated[UserSource, Tag("user")]
    | Annotated[PluginSource, Tag("plugin")]
    | Annotated[OtherSource, Tag("other")],
    Discriminator(_kind),
]
"""The source of a message of the user's side, told apart by its `kind`."""
