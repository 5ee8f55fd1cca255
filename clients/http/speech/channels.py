"""Splits answers in the harmony format into reasoning, calls of tools and the answer itself. Headers and marks are
removed where tokens become text, so no stop string is found in them, and what is left is told apart by counting its
characters."""

from collections import deque
from typing import NamedTuple

from ...harmony import Channels
from ..requests.arguments import read_arguments
from .cutter import Delta, Told
from .tool_calls import call


class Stretch(NamedTuple):
    """So many characters of a message; with a `function`, they are arguments for it."""

    size: int
    thought: bool
    function: str | None
    message: int


class Counted:
    """The decoder of an answer; `stretches` are what its text consists of. A call has one even without a text."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.stretches: deque[Stretch] = deque()
        self._message = 0

    def push(self, token: int) -> str:
        return self._counted(self.channels.push(token))

    def flush(self) -> str:
        return self._counted(self.channels.flush())

    def _counted(self, text: str) -> str:
        now = self.channels
        if text or (now.function is not None and now.message != self._message):
            self.stretches.append(Stretch(len(text), now.thinking, now.function, now.message))
        self._message = now.message
        return text


class ChannelSplitter:
    """For one answer, whose text came through this decoder. In what push and finish return, each piece is marked as
    thought or not. Log probabilities go with the first piece that is sent after they came. A call is told when its
    message is over; arguments that are no JSON of an object are text, and none at the end were cut off. `done` is set
    when nothing more is to come: without `several` there is one call at most."""

    def __init__(self, decoder: Counted, several: bool = True) -> None:
        self._channels = decoder.channels
        self._stretches = decoder.stretches
        self._several = several
        self._call: Stretch | None = None
        self._arguments = ""
        self._spoke = False
        self._told = Told()
        self.done = False

    @property
    def thinking(self) -> bool:
        return self._channels.thinking

    def push(self, delta: Delta) -> list[Delta]:
        self._told.add(delta.likely)
        parts: list[Delta] = []
        text = delta.text
        while self._stretches and not self.done and (text or not self._stretches[0].size):
            stretch = self._stretches.popleft()
            piece, text = text[: stretch.size], text[stretch.size :]
            if len(piece) < stretch.size:
                self._stretches.appendleft(stretch._replace(size=stretch.size - len(piece)))
            if self._call and stretch.message != self._call.message:
                parts += self._called()
            if self.done:
                break
            if stretch.function is not None:
                self._call = stretch
                self._arguments += piece
            else:
                self._put(parts, piece, stretch.thought)
        return self._told.with_first(parts)

    def finish(self, delta: Delta) -> list[Delta]:
        """The rest, with the last delta."""
        parts = self.push(delta)
        return parts + self._told.rest(self._called() if self._arguments.strip() else [], self.thinking)

    def _put(self, parts: list[Delta], text: str, thought: bool) -> None:
        if parts and not parts[-1].call and parts[-1].thought is thought:
            parts[-1] = parts[-1]._replace(text=parts[-1].text + text)
        else:
            parts.append(Delta(text, (), thought))
        self._spoke = self._spoke or not thought

    def _called(self) -> list[Delta]:
        called, text = self._call, self._arguments
        self._call, self._arguments = None, ""
        if called is None or called.function is None:
            return []
        try:
            made = call(called.function, read_arguments(text.strip() or "{}"))
        except ValueError:
            return [Delta("\n" + text if self._spoke else text)]
        self.done = not self._several
        return [Delta("", call=made)]
