"""One request's tokens, as they come."""

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from ..protocol import YIELD, Frame, Item
from .errors import DaemonGone, Refused
from .received import Received, Token


class Stream(Received):
    """Iterating gives token ids until the request ends, however it ends, and raises RequestFailed if it failed.

    A request that is parked (its grant is spent and nobody regrants) makes an iteration wait: `turn` and
    `frames` show when that is so. One thread at a time may read a stream; each stream may have its own."""

    def __init__(self, req_id: int, command: Callable[[str], dict[str, Any]]) -> None:
        super().__init__(req_id)
        self._command = command
        self._arrived: SimpleQueue[Item | DaemonGone] = SimpleQueue()

    def __iter__(self) -> Iterator[int]:
        return (frame.value for frame in self.frames() if frame.value >= 0)

    def tokens(self) -> Iterator[Token]:
        """The tokens, each with the log probabilities that were told of it."""
        return (self._token(frame) for frame in self.frames() if frame.value >= 0)

    def frames(self) -> Iterator[Frame]:
        """Every frame that is left: tokens, YIELD marks, and the terminal as the last one."""
        while not self._over:
            yield self._next()

    def turn(self) -> list[int]:
        """The tokens up to the next YIELD or the end (then `end` is set); empty after the end."""
        tokens = []
        for frame in self.frames():
            if frame.value == YIELD:
                break
            if frame.value >= 0:
                tokens.append(frame.value)
        return tokens

    def proceed(self, count: int) -> dict[str, Any]:
        """Grants the request `count` more tokens of its total; raises Refused."""
        return self._command(f"REQ {self.req_id} CONTINUE {count}")

    def cancel(self) -> bool:
        """Ends the request before the daemon's next step; what was emitted before still comes. False: it had ended
        already."""
        try:
            if self.live:
                self._command(f"CANCEL {self.req_id}")
                return True
        except Refused as refused:
            if refused.code != "not_active":
                raise
        return False

    def deliver(self, item: Item | DaemonGone) -> None:
        """For the client's reader thread: takes what arrived for this request, or why nothing more will."""
        self._note(item)
        self._arrived.put(item)

    def _next(self) -> Frame:
        while self._problem is None:
            if frame := self._read(self._arrived.get()):
                return frame
        raise self._problem
