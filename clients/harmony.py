"""Harmony, the format in which gpt-oss answers: messages, each with a header that says who it is for.

    <|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>

The channel `analysis` is for thoughts; `final`, and `commentary` before a call of a tool, are for the user. A message
to a tool (` to=functions.weather` in its header) is a call, and its text the arguments; it is left out unless tools
were offered, as is one to a tool of any other kind. The first header is begun by the prompt, which ends with
<|start|>assistant.

Marks are known by their ids: a text that spells one out in other tokens is still text."""

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from .detokenizer import Decoder, Detokenizer
from .stop_strings import StopStrings

START: Final = "<|start|>"
CHANNEL: Final = "<|channel|>"
CONSTRAIN: Final = "<|constrain|>"
MESSAGE: Final = "<|message|>"
ENDS: Final = ("<|end|>", "<|return|>", "<|call|>")
MARKS: Final = (START, CHANNEL, CONSTRAIN, MESSAGE, *ENDS)

ROLE: Final = "assistant"
FINAL: Final = f"{CHANNEL}final{MESSAGE}"  # how an answer begins, behind <|start|>assistant
RECIPIENT: Final = "to="
TO_A_TOOL: Final = re.compile(rf"\b{RECIPIENT}(?!{ROLE}\b)")
TO_A_FUNCTION: Final = re.compile(rf"\b{RECIPIENT}functions\.([^\s<]+)")


class Words(Protocol):
    def encode(self, text: str) -> list[int]: ...
    def detokenizer(self) -> Detokenizer: ...


def harmony_marks(template: str, words: Words) -> dict[int, str]:
    """The ids of the marks, for a model with this chat template; none if it does not use the format."""
    if CHANNEL not in template or MESSAGE not in template:
        return {}
    found = {token: mark for mark in MARKS if (token := mark_token(words, mark)) is not None}
    return found if {CHANNEL, MESSAGE} <= set(found.values()) else {}


def mark_token(words: Words, mark: str) -> int | None:
    """The id of a mark that is one token."""
    tokens = words.encode(mark)[-1:]  # there may be a begin token before it
    return tokens[0] if tokens and words.detokenizer().piece(tokens[0]) == mark.encode() else None


def harmony_message(message: dict[str, Any]) -> dict[str, Any]:
    """As the format's chat template takes it: there, a message that calls a tool may have a thought under a name of its
    own, but no text beside it."""
    thought = message.get("reasoning_content")
    if not message.get("tool_calls") or not thought:
        return message
    return {**message, "content": "", "thinking": thought}


def harmony_call(name: str | None) -> str:
    """How a call of this function begins, or of any, behind <|start|>assistant."""
    return f" {RECIPIENT}functions." + (f"{name}{CHANNEL}commentary json{MESSAGE}" if name else "")


class Channels:
    """A decoder for one answer to this prompt: the text of its messages, those of the same kind joined by a newline.
    `thinking` tells whether what push and flush return is a thought, and `function` of which one it is the arguments,
    if it is of one, in the `message` of this number. Stop strings are looked for in each message by itself."""

    def __init__(
        self,
        marks: Mapping[int, str],
        decoder: Decoder,
        prompt: str,
        stops: StopStrings | None = None,
        tools: bool = False,
    ) -> None:
        header, begun, _ = (prompt.rpartition(START)[2] if START in prompt else "").partition(MESSAGE)
        self._marks = marks
        self._decoder = decoder
        self._stops = stops or StopStrings()
        self._tools = tools
        self._header: str | None = header.removeprefix(ROLE).rstrip()  # None within a message
        self._kept = True  # the message is shown
        self._bare = True  # nothing of it came so far
        self._told: set[bool] = set()  # the kinds that have a text already
        self.thinking = False
        self.function: str | None = None
        self.message = 0  # its number, the first being 1
        if begun:
            self._begin()

    def push(self, token: int) -> str:
        mark = self._marks.get(token)
        if mark is None:
            return self._said(self._decoder.push(token))
        rest = self.flush()
        if mark == START:
            self._header = START
        elif mark in (CHANNEL, CONSTRAIN):
            self._header = (self._header or START) + mark
        elif mark == MESSAGE:
            self._begin()
        return rest  # a message without a header, behind an end, belongs to the one before it

    def flush(self) -> str:
        """What was held back: a character that was cut off, and what could have become a stop string."""
        return self._said(self._decoder.flush()) + self._shown(self._stops.flush())

    def _begin(self) -> None:
        if self._header is not None:
            called = TO_A_FUNCTION.search(self._header) if self._tools else None
            self.function = called and called[1]
            self.thinking = not called and self._header.rpartition(CHANNEL)[2].lstrip().startswith("analysis")
            self._kept = called is not None or TO_A_TOOL.search(self._header) is None
            self._header, self._bare = None, True
            self.message += 1

    def _said(self, text: str) -> str:
        if self._header is not None:
            self._header += text
            begun = self._header.lstrip()
            if begun.startswith((*MARKS, RECIPIENT)) or RECIPIENT.startswith(begun):
                return ""
            text, self._header = self._header, None  # it answers without any format
        return self._shown(self._stops.push(text)) if self._kept else ""

    def _shown(self, text: str) -> str:
        if not text or self.function is not None:
            return text
        between = "\n" if self._bare and self.thinking in self._told else ""
        self._bare = False
        self._told.add(self.thinking)
        return between + text


class Spelled:
    """A decoder that spells thoughts as other models do: between <think> and </think>."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._thinking = False

    def push(self, token: int) -> str:
        return self._spelled(self._channels.push(token))

    def flush(self) -> str:
        return self._spelled(self._channels.flush())

    def _spelled(self, text: str) -> str:
        thinking = self._channels.thinking
        if not text or thinking is self._thinking:
            return text
        self._thinking = thinking
        return ("<think>\n" if thinking else "\n</think>\n\n") + text
