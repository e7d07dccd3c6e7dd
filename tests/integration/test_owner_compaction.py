"""Compactions as the owner of a session meets them: overflow, and its dynamic context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.integration.compaction_stack import LONG, Stack

from surfacelog.producers.own_surface import OverflowPersists
from surfacelog.producers.session_writer import SessionWriter
from surfacelog.projections.dynamic_context import shown_sections

if TYPE_CHECKING:
    from tests.processes import Spawner


pytestmark = pytest.mark.services

SECTIONS = {"todo": "1. read the code", "cwd": "/work"}


@pytest.fixture
def stack(stack: Stack, spawn: Spawner) -> Stack:
    """With a compactor, too."""
    spawn("compactor")
    return stack


async def answer(writer: SessionWriter, text: str) -> None:
    """Write a turn of one step."""
    async with await writer.turn() as turn, turn.step() as step:
        await step.user(text)
        await step.text("well")
        await step.assistant(provider="p", model="m")


async def shown(writer: SessionWriter, stack: Stack) -> dict[str, str] | None:
    cut = await stack.read(writer.session_id, await writer.flush("visible"))
    return shown_sections(cut.messages, "workspace")


async def test_an_overflow_is_compacted_once_for_one_request_to_the_model(stack: Stack) -> None:
    async with SessionWriter.open(stack.settings, "full", client=stack.appends) as writer:
        for _ in range(3):
            await answer(writer, LONG)
        async with await writer.turn() as turn, turn.step() as step:
            await step.user("go on")
            await step.text("Let me")

            outcome = await writer.request_compaction()
            assert outcome.status == "compacted"
            assert outcome.advanced
            cut = await stack.surface.read("full")
            assert cut.nodes == (outcome.checkpoint_seq, cut.nodes[-1]), "all but the last message"
            with pytest.raises(OverflowPersists, match="1 times already"):
                await writer.request_compaction()

            await writer.restart_response()
            await step.text("Done.")
            await step.assistant(provider="p", model="m")
        again = await writer.request_compaction()
        assert again.status == "compacted"
        nothing = await writer.request_compaction("manual")
        assert nothing.status == "nothing_to_do"
        assert not nothing.advanced
    await stack.check_surface("full")


async def test_dynamic_context_is_written_when_it_changes_and_when_it_was_compacted_away(
    stack: Stack,
) -> None:
    async with SessionWriter.open(stack.settings, "context", client=stack.appends) as writer:
        assert await writer.ensure_context("workspace", {}) is None
        assert await writer.ensure_context("workspace", SECTIONS) is not None
        assert await writer.ensure_context("workspace", SECTIONS) is None
        assert await writer.ensure_context("other", SECTIONS) is not None
        await answer(writer, LONG)
        changed = SECTIONS | {"cwd": "/tmp"}
        assert await writer.ensure_context("workspace", changed) is not None
        await answer(writer, LONG)
        assert await writer.ensure_context("workspace", changed) is None

        assert (await writer.request_compaction("manual")).status == "compacted"
        assert await shown(writer, stack) is None
        assert await writer.ensure_context("workspace", changed) is not None
        assert await shown(writer, stack) == changed

    async with SessionWriter.open(stack.settings, "context", client=stack.appends) as heir:
        assert await heir.ensure_context("workspace", changed) is None, "it is still there"
    await stack.check_surface("context")
