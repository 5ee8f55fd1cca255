"""One request's tokens, as they come."""

from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

from ..protocol import FAILED, TERMINALS, YIELD, Frame, Message
from .errors import Refused, RequestFailed


class Stream:
    """Iterating gives token ids until the request ends, however it ends, and raises RequestFailed if it failed.

    `reply` is the answer to its START; `end` is the end event, None until the terminal was read; `events` are the
    others. A request that is parked (its grant is spent and nobody regrants) makes an iteration wait: `turn` and
    `frames` show when that is so. One thread at a time may read a stream; each stream may have its own."""

    def __init__(self, req_id: int, command: Callable[[str], dict[str, Any]]) -> None:
        self.req_id = req_id
        self.reply: dict[str, Any] = {}
        self.end: dict[str, Any] | None = None
        self.events: list[dict[str, Any]] = []
        self._command = command
        self._arrived: SimpleQueue[Frame | Message | Exception] = SimpleQueue()
        self._problem: Exception | None = None
        self._over = False

    def __iter__(self) -> Iterator[int]:
        return (frame.value for frame in self.frames() if frame.value >= 0)

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
            self._command(f"CANCEL {self.req_id}")
        except Refused as refused:
            if refused.code != "not_active":
                raise
            return False
        return True

    def deliver(self, item: Frame | Message | Exception) -> None:
        """For the client's reader thread: takes what arrived for this request, or why nothing more will."""
        self._arrived.put(item)

    def _next(self) -> Frame:
        while self._problem is None:
            match self._arrived.get():
                case Message(body={"event": "end"} as body):
                    self.end = body
                case Message(body=body):
                    self.events.append(body)
                case Frame(value=value) as frame:
                    self._over = value in TERMINALS
                    if value == FAILED:
                        end = self.end or {}
                        raise RequestFailed(end.get("code", "failed"), end.get("error", "no reason was given"))
                    return frame
                case Exception() as problem:
                    self._problem = problem
        raise self._problem
