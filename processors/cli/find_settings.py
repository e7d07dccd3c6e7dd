"""Where a command finds its services."""

from __future__ import annotations

import os
from typing import Final

from pydantic import ValidationError

from surfacelog.processors.stack.checkout import DEFAULT_DIRECTORY, find_checkout
from surfacelog.processors.stack.plan import load_plan
from surfacelog.processors.stack.services import Layout
from surfacelog.schemas.errors import SurfacelogError
from surfacelog.schemas.settings import Settings

ENDPOINTS: Final = ("SURFACELOG_KAFKA", "SURFACELOG_REGISTRY", "SURFACELOG_REDIS")


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
        problems = "; ".join(
            f"SURFACELOG_{str(problem['loc'][0]).upper()}: {problem['msg']}"
            for problem in error.errors()
        )
        raise SettingsError(problems) from error
    if any(name in os.environ for name in ENDPOINTS):
        return settings
    return settings.model_copy(update=_default_stack())


def _default_stack() -> dict[str, str | int]:
    checkout = find_checkout()
    plan = None if checkout is None else load_plan(Layout(checkout / DEFAULT_DIRECTORY).plan)
    return {} if plan is None else plan.settings
