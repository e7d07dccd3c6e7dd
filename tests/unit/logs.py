"""Short logs for tests: each event is given by what matters, the envelope is filled in."""

from __future__ import annotations

from typing import Any


class Log:
    """A log that numbers its events; every method returns the seq of what it appended."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def add(self, kind: str, data: Any, **more: Any) -> int:
        seq = len(self.events)
        self.events.append({"type": kind, "seq": seq, "time": 1000 + seq, "data": data, **more})
        return seq

    def start(self, turn: int = 1, step: int = 1) -> None:
        if step == 1:
            self.add("turn/start", {"turn": turn})
        self.add("step/start", {"turn": turn, "step": step})

    def end(self, turn: int = 1, step: int = 1) -> None:
        self.add("step/end", {"turn": turn, "step": step})
        self.add("turn/end", {"turn": turn, "reason": {"kind": "completed"}})

    def user(self, text: str = "hello", **more: Any) -> int:
        content = [{"type": "text", "text": text}]
        data = {"role": "user", "content": content, "source": {"kind": "user"}}
        return self._surface("user/message", data, **more)

    def assistant(self, *blocks: Any, usage: Any = None, turn: int = 1, step: int = 1,
                  **more: Any) -> int:  # fmt: skip
        source = {"kind": "model", "provider": "p", "model": "m"}
        message = {"role": "assistant", "content": list(blocks), "source": source}
        message["id"] = f"m{len(self.events)}"
        data: Any = {"turn": turn, "step": step, "message": message}
        if usage is not None:
            data["usage"] = usage
        return self._surface("assistant/message", data, **more)

    def result(self, call: str, text: str = "done", *, turn: int = 1, step: int = 1,
               **more: Any) -> int:  # fmt: skip
        block = {"type": "tool-result", "toolCallId": call}
        message: Any = {"role": "user", "source": {"kind": "tool", "callId": call}}
        message |= {"id": f"r-{call}", "content": [{**block, "content": [text_block(text)]}]}
        return self._surface(
            "tool/result", {"turn": turn, "step": step, "message": message}, **more
        )

    def call(self, call: str, *, turn: int = 1, step: int = 1) -> int:
        data = {"turn": turn, "step": step, "callId": call, "name": "bash", "arguments": "{}"}
        return self.add("tool/call", data)

    def chunk(self, chunk: Any, *, turn: int = 1, step: int = 1) -> int:
        return self.add("assistant/chunk", {"turn": turn, "step": step, "chunk": chunk})

    def header(self, **header: Any) -> int:
        config = {"provider": "p", "model": "m"}
        data = {"reason": "initial", "header": {"config": config, **header}}
        return self.add("request/header", data)

    def _surface(self, kind: str, data: Any, **more: Any) -> int:
        seq = len(self.events)
        if kind == "user/message":
            data = {**data, "id": f"m{seq}"}
        return self.add(kind, data, **{"surfaceOp": "append", **more})


def text_block(text: str) -> Any:
    return {"type": "text", "text": text}


def call_block(call: str) -> Any:
    return {"type": "tool-call", "id": call, "name": "bash", "arguments": "{}"}


def replace(start: int, end: int, sources: list[int]) -> Any:
    return {
        "surfaceOp": {"op": "replace", "start": start, "end": end},
        "sourceEventSeqs": sources,
    }
