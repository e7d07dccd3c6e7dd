"""`run all` keeps one name for its sequencer, whatever the environment leaves open."""

from __future__ import annotations

import os

import pytest

from surfacelog.processors.cli import run


@pytest.mark.parametrize(("given", "is_kept"), [("", False), ("mine", True)])
def test_an_empty_name_is_no_name(
    monkeypatch: pytest.MonkeyPatch, given: str, is_kept: bool
) -> None:
    """Seen to fail: an empty variable counted as a name, and each restart took a random one."""

    async def supervise(_commands: object) -> None:
        pass

    monkeypatch.setenv("SURFACELOG_INSTANCE", given)
    monkeypatch.setattr(run, "supervise", supervise)
    monkeypatch.setattr(run, "configure_logs", lambda: None)
    run.all_processes(None)
    assert os.environ["SURFACELOG_INSTANCE"]
    assert (os.environ["SURFACELOG_INSTANCE"] == given) is is_kept
