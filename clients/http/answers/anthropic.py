"""The answers of /v1/messages: whole ones, and the events of a stream in their order."""

import json
from typing import Any, Final

from ..call_ids import call_id
from ..news import Counts
from ..speech.cutter import Delta
from ..speech.tool_calls import Call
from .whole import Answer

Body = dict[str, Any]
CALL: Final = "tool_use"
_REASONS: Final = {"eos": "end_turn", "stop": "end_turn", "length": "max_tokens", "calls": "tool_use"}


class Blocks:
    """The content blocks of a stream: one for the thought, if there is one, one for the text, and one for each call. A
    block begins with its first piece."""

    def __init__(self) -> None:
        self._index = -1
        self._kind = ""

    def piece(self, delta: Delta) -> list[Body]:
        if delta.call:
            arguments = {"type": "input_json_delta", "partial_json": delta.call.arguments}
            return [*self._end(), self._begin(_call_block(delta.call, {})), self._about("delta", delta=arguments)]
        kind = "thinking" if delta.thought else "text"
        bodies = [] if kind == self._kind else [*self._end(), self._begin(_block(kind, ""))]
        return [*bodies, self._about("delta", delta={"type": f"{kind}_delta", kind: delta.text})]

    def close(self) -> list[Body]:
        """There is at least one block, and the last one is text or a call."""
        spoke = self._kind in ("text", CALL)
        return [*([] if spoke else [*self._end(), self._begin(_block("text", ""))]), *self._end()]

    def _begin(self, block: Body) -> Body:
        self._index, self._kind = self._index + 1, block["type"]
        return self._about("start", content_block=block)

    def _end(self) -> list[Body]:
        if self._index < 0:
            return []
        signed = [self._about("delta", delta={"type": "signature_delta", "signature": ""})]
        return [*(signed if self._kind == "thinking" else []), self._about("stop")]

    def _about(self, what: str, **more: Any) -> Body:
        return {"type": f"content_block_{what}", "index": self._index} | more


def message(name: str, model: str, answer: Answer, counts: Counts) -> Body:
    content = [_block_of(part) for part in answer.parts if part.text or part.call]
    if not content or content[-1]["type"] == "thinking":
        content.append(_block("text", ""))
    return _message(name, model, content, counts) | _ending(answer.reason, answer.stopped)


def opening(name: str, model: str, counts: Counts) -> Body:
    """`counts` is what is known by then: the prompt."""
    begun = _message(name, model, [], counts) | {"stop_reason": None, "stop_sequence": None}
    return {"type": "message_start", "message": begun}


def closing(reason: str, stopped: str | None, counts: Counts) -> list[Body]:
    return [
        {"type": "message_delta", "delta": _ending(reason, stopped), "usage": _usage(counts)},
        {"type": "message_stop"},
    ]


def _block(kind: str, text: str) -> Body:
    signed = {"signature": ""} if kind == "thinking" else {}
    return {"type": kind, kind: text} | signed


def _block_of(part: Delta) -> Body:
    if part.call:
        return _call_block(part.call, json.loads(part.call.arguments))
    return _block("thinking" if part.thought else "text", part.text)


def _call_block(call: Call, arguments: Body) -> Body:
    return {"type": CALL, "id": call_id(), "name": call.name, "input": arguments}


def _message(name: str, model: str, content: list[Body], counts: Counts) -> Body:
    head = {"id": name, "type": "message", "role": "assistant", "model": model}
    return head | {"content": content, "usage": _usage(counts)}


def _ending(reason: str, stopped: str | None) -> Body:
    return {"stop_reason": "stop_sequence" if stopped is not None else _REASONS[reason], "stop_sequence": stopped}


def _usage(counts: Counts) -> Body:
    """Unlike in OpenAI's API, prompt tokens that came from the cache are counted separately."""
    return {
        "input_tokens": counts.prompt - counts.cached,
        "cache_read_input_tokens": counts.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": counts.answer,
    }
