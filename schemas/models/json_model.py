"""What all models share: strict types, JSON names, unknown members and member order kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr, model_validator
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from pydantic import ModelWrapValidatorHandler, ValidationInfo

    from surfacelog.schemas.json_value import JsonObject, JsonValue

_FROM_JSON: Final = "surfacelog: from json"


class JsonModel(BaseModel):
    """A JSON object with typed members; `from_json` and `to_json` are lossless.

    Attributes have Python names, members JSON's (`call_id` is `callId`). None means that an
    optional member is absent. Members that the model does not name are kept as they are.
    """

    model_config = ConfigDict(
        strict=True,
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )

    _order: tuple[str, ...] = PrivateAttr(())

    @classmethod
    def from_json(cls, value: JsonValue) -> Self:
        """Return the model of a JSON object. Raises pydantic's ValidationError (a ValueError)."""
        context = {_FROM_JSON: True}
        return cls.model_validate(value, by_alias=True, by_name=False, context=context)

    def to_json(self) -> JsonObject:
        """Return the JSON object: members in the order read, else as declared."""
        return {name: _to_json(value) for name, value in self._members().items()}

    def _members(self) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            member, value = field.alias or name, getattr(self, name)
            if value is not None or field.is_required() or member in self._order:
                members[member] = value
        members |= self.model_extra or {}
        return {name: members[name] for name in self._order if name in members} | members

    @model_validator(mode="wrap")
    @classmethod
    def _keep_order(
        cls, value: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        model = handler(value)
        if isinstance(value, dict) and info.context and _FROM_JSON in info.context:
            # Kept only where it is unusual, so that equal objects made in either way are equal.
            usual = list(value) == list(model._members())
            model._order = () if usual else tuple(value)
        return model


def _to_json(value: Any) -> Any:
    if isinstance(value, JsonModel):
        return value.to_json()
    if isinstance(value, list):
        return [item.to_json() if isinstance(item, JsonModel) else item for item in value]
    return value
