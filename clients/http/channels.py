"""Splits answers in the harmony format into reasoning and the answer itself. Headers and marks are removed where tokens
become text, so no stop string is found in them, and what is left is told apart by counting its characters."""

from collections import deque

from ..harmony import Channels
from .cutter import Delta


class Counted:
    """The decoder of an answer; `runs` are how many characters it gave, and whether they are a thought."""

    def __init__(self, channels: Channels) -> None:
        self.channels = channels
        self.runs: deque[tuple[int, bool]] = deque()

    def push(self, token: int) -> str:
        return self._counted(self.channels.push(token))

    def flush(self) -> str:
        return self._counted(self.channels.flush())

    def _counted(self, text: str) -> str:
        if text:
            self.runs.append((len(text), self.channels.thinking))
        return text


class ChannelSplitter:
    """For one answer, whose text came through this decoder. In what push and finish return, each piece is marked as
    thought or not. Log probabilities go with the first piece of those that they came with."""

    def __init__(self, decoder: Counted) -> None:
        self._channels = decoder.channels
        self._runs = decoder.runs

    @property
    def thinking(self) -> bool:
        return self._channels.thinking

    def push(self, delta: Delta) -> list[Delta]:
        parts: list[Delta] = []
        text, told = delta.text, delta.likely
        while text:
            size, thought = self._runs.popleft()
            piece, text = text[:size], text[size:]
            if len(piece) < size:
                self._runs.appendleft((size - len(piece), thought))
            if parts and parts[-1].thought is thought:
                parts[-1] = parts[-1]._replace(text=parts[-1].text + piece)
            else:
                parts.append(Delta(piece, told, thought))
                told = ()
        return parts

    def finish(self, delta: Delta) -> list[Delta]:
        """The rest, with the last delta."""
        return self.push(delta) or ([Delta("", delta.likely, self.thinking)] if delta.likely else [])
