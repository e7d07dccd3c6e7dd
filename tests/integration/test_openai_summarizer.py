"""The summarizer `openai` against a real HTTP server on localhost."""

from __future__ import annotations

import asyncio
import json
import random
import time
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest
from tests.chat_server import (
    SUMMARY,
    ChatServer,
    answers,
    breaks_with,
    hangs_up,
    is_silent,
    says,
    says_text,
)
from tests.live_session import assistant, result, user

from surfacelog.processors.summarizers.openai_errors import retry_after
from surfacelog.processors.summarizers.openai_request import INSTRUCTION
from surfacelog.processors.summarizers.openai_summarizer import ATTEMPTS, OpenAiSummarizer
from surfacelog.processors.summarizers.protocol import Summary, SummaryError, SummaryRequest
from surfacelog.projections.messages import message_of
from surfacelog.projections.span_facts import SpanFacts
from surfacelog.schemas.settings import Settings

if TYPE_CHECKING:
    from tests.chat_server import Reply

    from surfacelog.schemas.json_value import JsonObject

HEADER: JsonObject = {
    "config": {"provider": "p", "model": "m-1"},
    "system": "You are careful.",
    "tools": [{"name": "bash", "description": "run", "parameters": {"type": "object"}}],
}
MESSAGES = [message_of(e) for e in (user("look"), assistant("c1"), result("c1", "a.py"))]
BUSY = json.dumps({"error": {"message": "too many", "code": "busy"}})


def request(*messages: JsonObject, tokens: int = 4000) -> SummaryRequest:
    return SummaryRequest("s", HEADER, messages or tuple(MESSAGES), SpanFacts(), tokens, 512)


def settings_of(server: ChatServer, **more: object) -> Settings:
    given = {"summarizer": "openai", "summarizer_url": server.url, **more}
    return Settings.model_validate(given)


async def ask(server: ChatServer, asked: SummaryRequest | None = None, **more: object) -> Summary:
    async with OpenAiSummarizer(settings_of(server, **more)) as summarizer:
        return await summarizer.summarize(asked or request())


async def test_a_summary_comes_with_usage_and_what_the_model_really_said() -> None:
    thought: dict[str, object] = {"reasoning_content": "hm"}
    reply = says(thought, {"content": SUMMARY[:90]}, {"content": SUMMARY[90:] + "\n"}, pause=0.01)
    async with ChatServer([reply]) as server:
        summary = await ask(server, summarizer_api_key="secret")

    assert summary.blocks == ({"type": "text", "text": SUMMARY},)
    assert (summary.provider, summary.model) == (server.place, "m-1")
    assert (summary.attempts, summary.max_tokens) == (1, 512)
    counted = {"inputTokens": 10, "outputTokens": 20, "cacheReadTokens": 90, "reasoningTokens": 5}
    assert summary.usage == counted
    assert summary.raw_output == (
        {"type": "reasoning", "text": "hm"},
        {"type": "text", "text": SUMMARY + "\n"},
    )
    assert "authorization: bearer secret" in server.received[0].head.lower()


async def test_the_request_is_the_conversation_and_one_instruction() -> None:
    async with ChatServer([says_text(SUMMARY)]) as server:
        await ask(server, summarizer_model="other")

    (received,) = server.received
    assert received.head.startswith("POST /v1/chat/completions ")
    called = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    assert received.json() == {
        "messages": [
            {"role": "system", "content": "You are careful."},
            {"role": "user", "content": "look"},
            {"role": "assistant", "content": "let me see", "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
            {"role": "user", "content": INSTRUCTION},
        ],
        "tools": [{"type": "function", "function": HEADER["tools"][0]}],  # type: ignore[index]  # a list
        "model": "other",
        "max_tokens": 512,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_two_requests_share_the_conversation_byte_for_byte() -> None:
    longer = [*MESSAGES, *(message_of(e) for e in (assistant(), user("and \U0001f600 \ud800?")))]
    async with ChatServer([says_text(SUMMARY)]) as server:
        await ask(server, request(*MESSAGES))
        await ask(server, request(*longer))

    first, second = (received.body for received in server.received)
    instruction = first.index(json.dumps(INSTRUCTION).encode()[1:40])
    prefix = first[: first.rindex(b"}", 0, instruction)]
    assert second.startswith(prefix)
    assert prefix.endswith(b'"content":"a.py"')


async def test_what_was_said_before_the_results_came_stands_behind_them() -> None:
    said = (user("look"), assistant("c1", "c2"), user("hurry"), result("c2"), result("c1"))
    async with ChatServer([says_text(SUMMARY)]) as server:
        await ask(server, request(*map(message_of, [*said, user("thanks")])))

    messages = server.received[0].json()["messages"]
    assert isinstance(messages, list)
    roles = ["system", "user", "assistant", "tool", "tool", "user", "user", "user"]
    assert [message["role"] for message in messages] == roles
    assert [message["content"] for message in messages[5:7]] == ["hurry", "thanks"]


async def test_reasoning_is_sent_unless_the_endpoint_refuses_it() -> None:
    message = message_of(assistant())
    message = {**message, "content": [{"type": "reasoning", "text": "hm"}]}
    async with ChatServer([says_text(SUMMARY)]) as server:
        await ask(server, request(message))
        await ask(server, request(message), summarizer_reasoning=False)

    with_it, without = (received.json()["messages"] for received in server.received)
    assert isinstance(with_it, list)
    assert isinstance(without, list)
    assert with_it[1] == {"role": "assistant", "content": "", "reasoning_content": "hm"}
    assert without[1] == {"role": "assistant", "content": ""}


async def test_an_image_is_sent_by_name() -> None:
    attachment: JsonObject = {"attachmentId": "i1", "mediaType": "image/png", "bytes": 9}
    attachment |= {"width": 3, "height": 2, "name": "plan.png"}
    image: JsonObject = {"type": "image", "attachment": attachment}
    message: JsonObject = {**MESSAGES[0], "content": [image]}
    async with ChatServer([says_text(SUMMARY)]) as server:
        await ask(server, request(message))

    messages = server.received[0].json()["messages"]
    assert isinstance(messages, list)
    assert messages[1]["content"] == "[image plan.png, image/png, 3x2]"


@pytest.mark.parametrize(
    "failure",
    [
        answers(429, BUSY),
        answers(500, "oops", "text/plain"),
        answers(529, BUSY),
        hangs_up,
        says_text(SUMMARY[:300], cut=True),
        says_text(SUMMARY[:300], finish=None),
        says_text(SUMMARY[:300], finish="insufficient_system_resource"),
        breaks_with({"message": "overloaded", "code": 503}),
        breaks_with({"message": "overloaded", "type": "overloaded_error"}),
    ],
    ids=["429", "500", "529", "closed", "cut", "no-end", "no-machines", "code", "type"],
)
async def test_what_may_go_better_is_tried_again(failure: Reply) -> None:
    async with ChatServer([failure, says_text(SUMMARY)]) as server:
        summary = await ask(server)

    assert summary.attempts == len(server.received) == 2
    assert server.received[0].body == server.received[1].body
    assert summary.blocks == ({"type": "text", "text": SUMMARY},)


async def test_retry_after_is_waited_for() -> None:
    failure = answers(429, BUSY, retry_after="2")
    async with ChatServer([failure, says_text(SUMMARY)]) as server:
        await ask(server)

    assert server.received[1].at - server.received[0].at >= 2


def test_retry_after_may_be_a_date_and_is_never_negative() -> None:
    now = time.time()
    assert retry_after({"retry-after": formatdate(now + 30, usegmt=True)}, now) == pytest.approx(
        30, abs=1
    )
    for past in (formatdate(now - 30, usegmt=True), "-3", "soon", "inf", "nan", ""):
        assert retry_after({"retry-after": past}, now) == 0


async def test_silence_counts_as_a_cut_connection() -> None:
    async with ChatServer([is_silent, says_text(SUMMARY, pause=0.1)]) as server:
        # The second answer takes longer in all than the silence that is allowed.
        summary = await ask(server, summarizer_silence_seconds=0.5)

    assert summary.attempts == 2


async def test_a_trickle_ends_when_its_time_is_over() -> None:
    async with ChatServer([says_text(SUMMARY, pause=0.1)]) as server:
        with pytest.raises(SummaryError, match=r"did not end within 0\.3 s"):
            await ask(server, summarizer_seconds=0.3)
        await asyncio.wait_for(server.left.wait(), 5)

    assert len(server.received) == 1


@pytest.mark.parametrize(
    ("failure", "calls", "reason"),
    [
        (answers(500, BUSY), ATTEMPTS, "answered 500"),
        (answers(400, BUSY), 1, "answered 400"),
        (answers(401, BUSY), 1, "answered 401"),
        (answers(429, BUSY, retry_after="3600"), 1, "answered 429"),
        (breaks_with({"message": "bad prompt", "code": 400}), 1, "bad prompt"),
        (answers(200, "<html>hello</html>", "text/html"), 1, "something else"),
        (answers(200, '{"choices":[]}'), 1, "something else"),
        (answers(200, "data: {broken\n\n", "text/event-stream"), 1, "cannot be read"),
        (answers(200, 'data: [1, "x"]\n\n', "text/event-stream"), 1, "something else"),
        (answers(200, "data: \xff\xfe\n\n", "text/event-stream"), 1, "cannot be read"),
    ],
)
async def test_what_will_not_go_better_is_a_failed_summary(
    failure: Reply, calls: int, reason: str
) -> None:
    async with ChatServer([failure]) as server:
        with pytest.raises(SummaryError, match=reason):
            await ask(server)

    assert len(server.received) == calls


async def test_nobody_there_is_a_failed_summary() -> None:
    async with ChatServer([hangs_up]) as server:
        gone = settings_of(server)
    async with OpenAiSummarizer(gone) as summarizer:
        with pytest.raises(SummaryError, match="no connection"):
            await summarizer.summarize(request())


async def test_a_request_without_any_model_is_a_failed_summary() -> None:
    async with ChatServer([says_text(SUMMARY)]) as server:
        asked = SummaryRequest("s", None, tuple(MESSAGES), SpanFacts(), 4000, 512)
        with pytest.raises(SummaryError, match="no model"):
            await ask(server, asked)

    assert server.received == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (says(), "only blanks"),
        (says_text(" \n\t "), "only blanks"),
        (says({"reasoning_content": SUMMARY}), "only reasoning"),
        (says({"tool_calls": [{"index": 0, "id": "c"}]}, finish="tool_calls"), "only tool-call"),
        (says({"content": [{"type": "image_url"}]}), "image"),
        (says({"content": SUMMARY}, {"images": [{"type": "image_url"}]}), "image"),
        (says_text(SUMMARY + "\n![](data:image/png;base64,AAAA)"), "image"),
        (says_text(SUMMARY, finish="length"), "token limit"),
        (says_text(SUMMARY, finish="content_filter"), "content_filter"),
        (says({"refusal": "I will not."}), "I will not"),
        (says_text("I'm sorry, but I can't help with that."), "lacks the sections"),
        (says_text('{"error": {"message": "internal error"}}'), "lacks the sections"),
        (says_text(SUMMARY.replace("## Next step", "")), "lacks the sections Next step"),
        (says_text(SUMMARY + "\n- and so on and so on, again and again" * 90), "again and again"),
    ],
)
async def test_what_is_no_good_summary_is_refused_at_once(reply: Reply, reason: str) -> None:
    async with ChatServer([reply]) as server:
        with pytest.raises(SummaryError, match=reason):
            await ask(server)

    assert len(server.received) == 1


async def test_a_summary_of_nothing_is_refused() -> None:
    empty = "\n".join(line for line in SUMMARY.splitlines() if line.startswith("## "))
    async with ChatServer([says_text(empty)]) as server:
        with pytest.raises(SummaryError, match="says nothing"):
            await ask(server)


async def test_a_summary_that_is_not_cheaper_is_refused() -> None:
    async with ChatServer([says_text(SUMMARY)]) as server:
        with pytest.raises(SummaryError, match=r"costs (\d+) tokens, what it shadows 100"):
            await ask(server, request(tokens=100))


async def test_a_loop_in_the_middle_is_seen_and_a_long_list_is_none() -> None:
    numbers = random.Random(7)
    paths = "".join(f"- src/app/{numbers.randrange(10**6)}/part.py\n" for _ in range(200))
    looped = "I will look at the file again. " * 200 + "\n" + SUMMARY
    async with ChatServer([says_text(f"{SUMMARY}\n{paths}"), says_text(looped)]) as server:
        await ask(server)
        with pytest.raises(SummaryError, match="again and again"):
            await ask(server)


async def test_a_cancelled_call_hangs_up() -> None:
    async with ChatServer([says_text(SUMMARY, pause=60)]) as server:
        calling = asyncio.create_task(ask(server))
        async with asyncio.timeout(10):
            await server.asked.wait()
            calling.cancel()
            with pytest.raises(asyncio.CancelledError):
                await calling
            await server.left.wait()

    assert len(server.received) == 1
