"""Splits answers in the harmony format into reasoning, calls of tools and the answer itself. Headers and marks are
removed where tokens become text, so no stop string is found in them, and what is left is told apart by counting its
characters."""

from collections import deque
from typing import NamedTuple

from ..harmony import Channels
from .cutter import Delta, Told
from .tool_calls import NoCall, arguments_of, call


class Stretch(NamedTuple):
    """So many characters of one kind; with a `function`, they are arguments for it."""

    size: int
    thought: bool
    function: str | None


class Counted:
    """The decoder of an answer; `stretches` are what its text consists of."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.stretches: deque[Stretch] = deque()

    def push(self, token: int) -> str:
        return self._counted(self.channels.push(token))

    def flush(self) -> str:
        return self._counted(self.channels.flush())

    def _counted(self, text: str) -> str:
        if text:
            self.stretches.append(Stretch(len(text), self.channels.thinking, self.channels.function))
        return text


class ChannelSplitter:
    """For one answer, whose text came through this decoder. In what push and finish return, each piece is marked as
    thought or not. Log probabilities go with the first piece of those that they came with. A call is told at the end,
    which it is: arguments that are no JSON of an object are text."""

    def __init__(self, decoder: Counted) -> None:
        self._channels = decoder.channels
        self._stretches = decoder.stretches
        self._function: str | None = None
        self._arguments = ""
        self._told = Told()

    @property
    def thinking(self) -> bool:
        return self._channels.thinking

    def push(self, delta: Delta) -> list[Delta]:
        self._told.add(delta.likely)
        parts: list[Delta] = []
        text = delta.text
        while text:
            size, thought, function = self._stretches.popleft()
            piece, text = text[:size], text[size:]
            if len(piece) < size:
                self._stretches.appendleft(Stretch(size - len(piece), thought, function))
            if function != self._function:
                parts += self._call()
                self._function = function
            if function is not None:
                self._arguments += piece
            elif parts and not parts[-1].call and parts[-1].thought is thought:
                parts[-1] = parts[-1]._replace(text=parts[-1].text + piece)
            else:
                parts.append(Delta(piece, (), thought))
        return self._told.with_first(parts)

    def finish(self, delta: Delta) -> list[Delta]:
        """The rest, with the last delta."""
        return self.push(delta) + self._told.rest(self._call(), self.thinking)

    def _call(self) -> list[Delta]:
        function, text = self._function, self._arguments
        self._function, self._arguments = None, ""
        if function is None:
            return []
        try:
            return [Delta("", call=call(function, arguments_of(text)))]
        except NoCall:
            return [Delta(text)]
