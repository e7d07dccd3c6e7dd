"""Our answers about parts: one stream, one tool result, one file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surfacelog.projections.assembly import BlockAssembler
from surfacelog.projections.pruner import prune_blocks, prune_policy, text_length
from surfacelog.schemas.jsonl import read_log
from tests.vectors.session_answers import policy_names

if TYPE_CHECKING:
    from tests.vectors.cases import Case


def assembled(case: Case) -> Any:
    assembler = BlockAssembler()
    for chunk in case.question["chunks"]:
        assembler.push(chunk)
    return {
        "blocks": assembler.blocks(),
        "usage": assembler.usage,
        "finish": assembler.finish,
        "replayState": assembler.replay_state,
    }


def prune(case: Case) -> Any:
    wish = case.question["prune"]
    policy = prune_policy(policy_names(wish.get("config", {})))
    return {
        "measured": text_length(wish["content"]),
        "config": {
            "thresholdChars": policy.threshold,
            "headChars": policy.head,
            "tailChars": policy.tail,
        },
        "content": prune_blocks(wish["content"], policy),
    }


def jsonl(case: Case) -> Any:
    # A file has no lone surrogates: UTF-8 cannot carry them.
    text = case.question["jsonl"].encode("utf-16-le", "surrogatepass")
    stored = read_log(text.decode("utf-16-le", "replace").encode())
    return {
        "meta": stored.header,
        "events": stored.events,
        "committedBytes": stored.committed_bytes,
    }
