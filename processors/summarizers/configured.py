"""The summarizer that the settings name."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from surfacelog.processors.summarizers.extractive import ExtractiveSummarizer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from surfacelog.processors.summarizers.protocol import Summarizer
    from surfacelog.schemas.settings import Settings


@asynccontextmanager
async def configured_summarizer(settings: Settings) -> AsyncIterator[Summarizer]:
    """Open the summarizer of the settings; its connections are closed at the end."""
    if settings.summarizer == "extractive":
        yield ExtractiveSummarizer()
        return
    # Imported only by those who use it: the client takes a second to load.
    from surfacelog.processors.summarizers.openai_summarizer import OpenAiSummarizer

    async with OpenAiSummarizer(settings) as summarizer:
        yield summarizer
