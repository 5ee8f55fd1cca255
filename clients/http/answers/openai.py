"""The answers of /v1/chat/completions and /v1/completions: whole ones, and a stream's chunks."""

from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..call_ids import call_id
from ..news import Counts
from ..speech.cutter import Delta, Likely
from ..speech.tool_calls import Call
from .whole import Answer

Body = dict[str, Any]
Spell = Callable[[int], bytes]
REASONS: Final = {"eos": "stop", "stop": "stop", "length": "length", "calls": "tool_calls"}


class ChatShape:
    """What differs between the two routes; this is for chat completions. `spell` gives a token's bytes."""

    name = "chat.completion"
    chunk = "chat.completion.chunk"
    prefix = "chatcmpl-"

    def __init__(self, spell: Spell, logprobs: int | None) -> None:
        self._spell = spell
        self._logprobs = logprobs
        self._called: Counter[int] = Counter()  # calls so far, by choice

    def opening(self, index: int) -> list[Body]:
        """The choices that a stream begins with."""
        return [self._choice(index, {"delta": {"role": "assistant", "content": ""}}, None, None)]

    def piece(self, index: int, delta: Delta) -> Body:
        return self._choice(index, {"delta": self._delta(index, delta)}, self._told(delta.likely), None)

    def nothing(self, index: int) -> Body:
        return self._choice(index, {"delta": {}}, None, None)

    def closing(self, index: int, reason: str) -> Body:
        return self._choice(index, {"delta": {}}, None, REASONS[reason])

    def whole(self, index: int, answer: Answer) -> Body:
        message: Body = {"role": "assistant", "content": answer.text, "refusal": None}
        if answer.thought:
            message["reasoning_content"] = answer.thought
        if answer.calls:
            message |= {"content": answer.text or None, "tool_calls": list(map(_call, answer.calls))}
        return self._choice(index, {"message": message}, self._told(answer.likely), REASONS[answer.reason])

    def _delta(self, index: int, delta: Delta) -> Body:
        if delta.call is None:
            return {"reasoning_content" if delta.thought else "content": delta.text}
        number = self._called[index]
        self._called[index] += 1
        return {"tool_calls": [{"index": number} | _call(delta.call)]}

    def _choice(self, index: int, content: Body, told: Body | None, reason: str | None) -> Body:
        return {"index": index, **content, "logprobs": told, "finish_reason": reason}

    def _told(self, likely: Sequence[Likely]) -> Body | None:
        if self._logprobs is None:
            return None
        return {"content": told_likely(self._spell, likely, self._logprobs), "refusal": None}


def told_likely(spell: Spell, likely: Sequence[Likely], most: int) -> list[Body]:
    """An entry for each token, with at most so many of the likeliest at its position."""

    def entry(token: int, logprob: float | None) -> Body:
        spelled = spell(token)
        return {"token": spelled.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(spelled)}

    return [
        entry(one.token, one.logprob) | {"top_logprobs": [entry(*other) for other in one.top[:most]]} for one in likely
    ]


def _call(call: Call) -> Body:
    return {"id": call_id(), "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


class CompletionShape:
    """For completions. Offsets are characters from the beginning of the text, one counter for each choice."""

    name = "text_completion"
    chunk = "text_completion"
    prefix = "cmpl-"

    def __init__(self, spell: Spell, logprobs: int | None) -> None:
        self._spell = spell
        self._logprobs = logprobs
        self._spelled: dict[int, Place] = {}

    def opening(self, index: int) -> list[Body]:
        return []

    def piece(self, index: int, delta: Delta) -> Body:
        return self._choice(index, delta.text, self._told(index, delta.likely), None)

    def nothing(self, index: int) -> Body:
        return self._choice(index, "", None, None)

    def closing(self, index: int, reason: str) -> Body:
        return self._choice(index, "", None, REASONS[reason])

    def whole(self, index: int, answer: Answer) -> Body:
        return self._choice(index, answer.text, self._told(index, answer.likely), REASONS[answer.reason])

    def _choice(self, index: int, text: str, told: Body | None, reason: str | None) -> Body:
        return {"index": index, "text": text, "logprobs": told, "finish_reason": reason}

    def _told(self, index: int, likely: Sequence[Likely]) -> Body | None:
        if self._logprobs is None:
            return None
        place = self._spelled.setdefault(index, Place())
        tokens, offsets, top = [], [], []
        for one in likely:
            tokens.append(self._text(one.token))
            offsets.append(place.after(self._spell(one.token)[one.unsaid :]))
            likeliest = {self._text(token): logprob for token, logprob in one.top[: self._logprobs]}
            if one.logprob is not None:
                likeliest.setdefault(tokens[-1], one.logprob)
            top.append(None if one.logprob is None else likeliest)
        logprobs = [one.logprob for one in likely]
        return {"tokens": tokens, "token_logprobs": logprobs, "top_logprobs": top, "text_offset": offsets}

    def _text(self, token: int) -> str:
        """A token's text. Bytes that are not whole characters are spelled as OpenAI does: as U+FFFD, many tokens would
        look the same."""
        spelled = self._spell(token)
        try:
            return spelled.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)


class Place:
    """The current offset in a text whose characters may be spread over several tokens."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")
        self._characters = 0

    def after(self, spelled: bytes) -> int:
        """The number of whole characters before this token."""
        begun = self._characters
        self._characters += len(self._decoder.decode(spelled))
        return begun


Shape = ChatShape | CompletionShape


@dataclass(frozen=True, slots=True)
class Envelope:
    """What all chunks of a stream, or a whole answer, have in common; `created` is in seconds since 1970."""

    id: str
    model: str
    created: int

    def around(self, name: str, choices: list[Body], **more: Any) -> Body:
        head = {"id": self.id, "object": name, "created": self.created, "model": self.model}
        return head | {"choices": choices} | more


def usage(counts: Counts, predicted: bool = False) -> Body:
    """`predicted`: with what OpenAI tells of a prediction."""
    tried = {
        "accepted_prediction_tokens": counts.right,
        "rejected_prediction_tokens": counts.tried - counts.right,
    }
    return {
        "prompt_tokens": counts.prompt,
        "completion_tokens": counts.answer,
        "total_tokens": counts.prompt + counts.answer,
        "prompt_tokens_details": {"cached_tokens": counts.cached},
        "completion_tokens_details": {"reasoning_tokens": counts.thought} | (tried if predicted else {}),
    }
