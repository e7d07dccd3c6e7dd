"""The README's code, as a reader would run it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.processes import Spawner

    from surfacelog.schemas.settings import Settings

pytestmark = pytest.mark.services

README = Path(__file__).parents[2] / "README.md"


async def test_the_readme_writes_and_reads_a_session(
    settings: Settings, spawn: Spawner, capsys: pytest.CaptureFixture[str]
) -> None:
    spawn("sequencer")
    spawn("projector")
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, "README.md", "exec"), names)
    await names["main"](settings)
    assert capsys.readouterr().out.strip() == "7 ['user', 'assistant']"
