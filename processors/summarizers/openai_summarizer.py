"""A summarizer that asks a model, over any OpenAI-compatible endpoint (DESIGN 7)."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog
from openai import APIError, AsyncOpenAI, AsyncStream, Timeout
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from surfacelog.processors.summarizers.good_summary import summary_text
from surfacelog.processors.summarizers.openai_answer import ChatAnswer
from surfacelog.processors.summarizers.openai_errors import TransientError, as_summary_error
from surfacelog.processors.summarizers.openai_request import INSTRUCTION, chat_request
from surfacelog.processors.summarizers.protocol import Summary, SummaryError
from surfacelog.schemas.json_value import object_member, text_member

if TYPE_CHECKING:
    from typing import Self

    from surfacelog.processors.summarizers.protocol import SummaryRequest
    from surfacelog.schemas.json_value import JsonObject
    from surfacelog.schemas.settings import Settings

ATTEMPTS: Final = 4
CONNECT_SECONDS: Final = 10.0
_NO_KEY: Final = "none"
_BACKOFF: Final = wait_exponential(multiplier=0.5, max=30) + wait_random(0, 0.5)
# DeepSeek's way to say that it ran out of machines in the middle of an answer.
_OUT_OF_MACHINES: Final = "insufficient_system_resource"

_log = structlog.get_logger()


class OpenAiSummarizer:
    """Streams one chat completion a summary. An asynchronous context manager.

    A call that may go better the next time (429, 5xx, a cut connection, silence) is made again,
    at most `ATTEMPTS` times in all and not before the endpoint's retry-after. An answer that is
    no good summary, or takes too long, is not asked for again: that would be paid for twice.
    """

    def __init__(self, settings: Settings) -> None:
        self._url = settings.summarizer_url
        self._model = settings.summarizer_model
        self._reasoning = settings.summarizer_reasoning
        self._seconds = settings.summarizer_seconds
        self._client = AsyncOpenAI(
            base_url=self._url,
            api_key=settings.summarizer_api_key.get_secret_value() or _NO_KEY,
            max_retries=0,
            timeout=Timeout(settings.summarizer_silence_seconds, connect=CONNECT_SECONDS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    @property
    def identity(self) -> str:
        """Endpoint, model and instruction: another one may give another summary."""
        instruction = hashlib.sha256(INSTRUCTION.encode()).hexdigest()[:8]
        return f"openai/{self._url}/{self._model}/{self._reasoning}/{instruction}"

    async def summarize(self, request: SummaryRequest) -> Summary:
        """Return the model's summary; SummaryError when there is none that is good."""
        body = chat_request(request, self._model_for(request), reasoning=self._reasoning)
        async for attempt in _attempts():
            with attempt:
                answer = await self._answer(body)
                made = attempt.retry_state.attempt_number
        provider, model = urlsplit(self._url).netloc, str(body["model"])
        try:
            text = summary_text(answer, request.shadowed_tokens)
        except SummaryError as error:
            paid: JsonObject = {"provider": provider, "model": model, "usage": answer.usage}
            raise SummaryError(error.message, {**paid, "attempts": made}) from error
        return Summary(
            blocks=({"type": "text", "text": text},),
            provider=provider,
            model=model,
            max_tokens=request.max_tokens,
            usage=answer.usage,
            raw_output=answer.blocks(),
            attempts=made,
        )

    def _model_for(self, request: SummaryRequest) -> str:
        own = text_member(object_member(request.header, "config"), "model")
        model = request.model or self._model or own
        if not model:
            raise SummaryError("no model is set, and the conversation has not named its own yet")
        return model

    async def _answer(self, body: JsonObject) -> ChatAnswer:
        """Make one call; TransientError when it is worth another one, else SummaryError."""
        answer = ChatAnswer()
        try:
            # A client's own time limit starts anew with every byte, so that a trickle never ends.
            async with asyncio.timeout(self._seconds):
                await self._stream(body, answer)
        except TimeoutError as error:
            raise SummaryError(f"the answer did not end within {self._seconds:g} s") from error
        except (APIError, ValueError) as error:
            raise as_summary_error(error) from error
        if not answer.chunks:
            raise SummaryError("the endpoint answered with something else than a chat completion")
        if answer.finish in (None, _OUT_OF_MACHINES):
            raise TransientError("the answer broke off in the middle")
        return answer

    async def _stream(self, body: JsonObject, answer: ChatAnswer) -> None:
        # Sent and read as plain JSON: the log's members are not the client's models.
        stream = await self._client.post(
            "/chat/completions",
            cast_to=object,
            body=body,
            stream=True,
            stream_cls=AsyncStream[object],
        )
        async with stream:
            async for chunk in stream:
                answer.add(chunk)  # type: ignore[arg-type]  # parsed JSON


def _attempts() -> AsyncRetrying:
    return AsyncRetrying(
        retry=retry_if_exception_type(TransientError),
        wait=_wait,
        stop=stop_after_attempt(ATTEMPTS),
        before_sleep=_log_retry,
        reraise=True,
    )


def _wait(state: RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome is not None else None
    asked = error.retry_after if isinstance(error, TransientError) else 0.0
    return max(asked, _BACKOFF(state))


def _log_retry(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    _log.warning("summary asked for again", reason=str(error), attempts=state.attempt_number)
