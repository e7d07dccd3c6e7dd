"""Where a command finds its services."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError
from pydantic_settings import SettingsError as UnreadableSettingsError

from surfacelog.processors.stack.checkout import DEFAULT_DIRECTORY, find_checkout
from surfacelog.processors.stack.plan import load_plan
from surfacelog.processors.stack.services import Layout
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.settings import Settings

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

ENDPOINTS: Final = ("SURFACELOG_KAFKA", "SURFACELOG_REGISTRY", "SURFACELOG_REDIS")

_BOUNDS: Final = ("gt", "ge", "lt", "le")


class SettingsError(SurfacelogError):
    """A SURFACELOG_* variable has a value that it cannot have."""

    code = "settings"


def find_settings() -> Settings:
    """Return the settings of the environment, on the checkout's default stack if it names none.

    One endpoint in the environment is enough to leave the stack out: a command never mixes the
    services of two places. SettingsError says which variable is wrong.
    """
    try:
        settings = Settings()
    except ValidationError as error:
        raise SettingsError("; ".join(map(_sentence, error.errors()))) from error
    except UnreadableSettingsError as error:
        raise SettingsError(f"{error}: it is JSON") from error
    if any(name in os.environ for name in ENDPOINTS):
        return settings
    return settings.model_copy(update=_default_stack())


def _sentence(problem: ErrorDetails) -> str:
    """Name the variable; a contradiction between several of them names them itself."""
    message = problem["msg"].removeprefix("Value error, ")
    if not problem["loc"]:
        return message
    if problem["type"] == "extra_forbidden":
        message = "there is no such member: is it misspelled?"
    if any(bound in problem.get("ctx", {}) for bound in _BOUNDS):
        # Only numbers have bounds, and no number is a secret.
        message += f", not {problem['input']}"
    variable, *members = problem["loc"]
    return f"SURFACELOG_{str(variable).upper()}{''.join(map(_place, members))}: {message}"


def _place(member: int | str) -> str:
    return f"[{member}]" if isinstance(member, int) else f".{member}"


def _default_stack() -> dict[str, str | int]:
    checkout = find_checkout()
    plan = None if checkout is None else load_plan(Layout(checkout / DEFAULT_DIRECTORY).plan)
    return {} if plan is None else plan.settings
