"""The answers of /v1/responses: whole ones, and the events of a stream in their order."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..call_ids import call_id
from ..news import Counts
from ..speech.cutter import Delta, Likely
from ..speech.tool_calls import Call
from .openai import Body, Spell, told_likely
from .whole import Answer

REASONING, MESSAGE, CALL = "reasoning", "message", "function_call"
PREFIXES: Final = {REASONING: "rs_", MESSAGE: "msg_", CALL: "fc_"}
PARTS: Final = {REASONING: "reasoning_text", MESSAGE: "output_text"}
DONE, BEGUN, CUT_OFF = "completed", "in_progress", "incomplete"


@dataclass(frozen=True, slots=True)
class ResponseShape:
    """What all that is said of one response has in common; `created` is in seconds since 1970, `repeated` are fields
    of the request."""

    id: str
    model: str
    created: int
    repeated: Mapping[str, Any]

    def around(self, status: str, output: Sequence[Body], **more: Any) -> Body:
        head = {"id": self.id, "object": "response", "created_at": self.created, "status": status, "model": self.model}
        absent = {"error": None, "incomplete_details": None, "previous_response_id": None, "store": False}
        return head | {"output": list(output), "usage": None} | absent | dict(self.repeated) | more

    def ended(self, reason: str, output: Sequence[Body], counts: Counts) -> Body:
        if reason != "length":
            return self.around(DONE, output, usage=usage(counts))
        return self.around(CUT_OFF, output, usage=usage(counts), incomplete_details={"reason": "max_output_tokens"})


class Items:
    """The output items of one response: at most one of reasoning at a time, one of text, and one for each call. `done`
    are those that are complete."""

    def __init__(self, spell: Spell, logprobs: int | None) -> None:
        self._spell = spell
        self._logprobs = logprobs
        self._kind = ""  # of the item that is begun
        self._id = ""
        self._texts: list[str] = []
        self._likely: list[Body] = []
        self.done: list[Body] = []

    def piece(self, delta: Delta) -> Iterator[Body]:
        if delta.call:
            yield from self._close()
            yield from self._call(delta.call)
            return
        kind = REASONING if delta.thought else MESSAGE
        if not delta.text and kind != self._kind:  # log probabilities of blanks behind a call
            return
        if kind != self._kind:
            yield from self._close()
            yield from self._begin(kind)
        told = self._told(delta.likely)
        self._texts.append(delta.text)
        self._likely += told
        more = {"logprobs": told} if kind == MESSAGE else {}
        yield self._about(f"response.{PARTS[kind]}.delta", content_index=0, delta=delta.text, **more)

    def end(self, status: str) -> Iterator[Body]:
        """There is at least one item, and the last one is text or a call."""
        if self._kind != MESSAGE and not (self.done and self.done[-1]["type"] == CALL):
            yield from self._close()
            yield from self._begin(MESSAGE)
        yield from self._close(status)

    def _close(self, status: str = DONE) -> Iterator[Body]:
        """Ends the item that is begun, if there is one."""
        if not self._kind:
            return
        text, kind = "".join(self._texts), self._kind
        more = {"logprobs": self._likely} if kind == MESSAGE else {}
        yield self._about(f"response.{PARTS[kind]}.done", content_index=0, text=text, **more)
        part = _part(kind, text, self._likely)
        yield self._about("response.content_part.done", content_index=0, part=part)
        yield self._end(_item(kind, self._id, [part], status))

    def all_of(self, answer: Answer) -> list[Body]:
        """Those of a complete answer."""
        for part in answer.parts:
            list(self.piece(part))
        list(self.end(CUT_OFF if answer.reason == "length" else DONE))
        return self.done

    def _begin(self, kind: str) -> Iterator[Body]:
        self._kind, self._id = kind, PREFIXES[kind] + secrets.token_hex(12)
        self._texts, self._likely = [], []
        yield self._item("response.output_item.added", _item(kind, self._id, [], BEGUN))
        yield self._about("response.content_part.added", content_index=0, part=_part(kind, "", []))

    def _call(self, call: Call) -> Iterator[Body]:
        self._id = PREFIXES[CALL] + secrets.token_hex(12)
        whole = {"id": self._id, "type": CALL, "status": DONE, "call_id": call_id(), "name": call.name}
        yield self._item("response.output_item.added", whole | {"status": BEGUN, "arguments": ""})
        yield self._about("response.function_call_arguments.delta", delta=call.arguments)
        yield self._about("response.function_call_arguments.done", name=call.name, arguments=call.arguments)
        yield self._end(whole | {"arguments": call.arguments})

    def _end(self, item: Body) -> Body:
        event = self._item("response.output_item.done", item)
        self.done.append(item)
        self._kind = ""
        return event

    def _item(self, kind: str, item: Body) -> Body:
        return {"type": kind, "output_index": len(self.done), "item": item}

    def _about(self, kind: str, **more: Any) -> Body:
        return {"type": kind, "item_id": self._id, "output_index": len(self.done)} | more

    def _told(self, likely: Sequence[Likely]) -> list[Body]:
        return [] if self._logprobs is None else told_likely(self._spell, likely, self._logprobs)


def usage(counts: Counts) -> Body:
    return {
        "input_tokens": counts.prompt,
        "input_tokens_details": {"cached_tokens": counts.cached, "cache_write_tokens": 0},
        "output_tokens": counts.answer,
        "output_tokens_details": {"reasoning_tokens": counts.thought},
        "total_tokens": counts.prompt + counts.answer,
    }


def _item(kind: str, name: str, parts: list[Body], status: str) -> Body:
    if kind == REASONING:
        return {"id": name, "type": kind, "status": status, "summary": [], "content": parts}
    return {"id": name, "type": kind, "status": status, "role": "assistant", "content": parts}


def _part(kind: str, text: str, likely: list[Body]) -> Body:
    more = {"annotations": [], "logprobs": likely} if kind == MESSAGE else {}
    return {"type": PARTS[kind], "text": text} | more
