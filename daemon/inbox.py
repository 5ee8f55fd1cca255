"""What reaches the loop from outside: lines, the end of input, a signal, the loss of the stream. One queue for all of
it, so that the loop sleeps in one place.

Any thread puts; the loop's thread polls, and then reads `lines`, `ended`, `stop` and `gone` when it likes. Lines that
have not been taken are bounded in bytes (by the most that Python needs for them): a thread that puts more blocks.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from dataclasses import dataclass
from enum import Enum

from ..protocol import BadLine, Line

AnyLine = Line | BadLine

ROOM = 1 << 20
_LINE_COST = 64
"""Bytes counted for a line besides its text, so that a flood of short lines is bounded too."""


class News(Enum):
    END_OF_INPUT = "end of input"
    WAKE = "wake"


@dataclass(frozen=True, slots=True)
class Stop:
    """A signal that asks the daemon to end."""

    signum: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The stream can't be written any more; the error is None if its reader simply left."""

    error: OSError | None


Event = list[AnyLine] | News | Stop | Gone


class Inbox:
    def __init__(self, room: int = ROOM) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._room = threading.Condition()
        self._left = room
        self.lines: deque[AnyLine] = deque()
        self.ended = False
        self.stop: int | None = None
        self.gone: Gone | None = None
        self.leaving = threading.Event()
        """Set as soon as a signal has come or the stream is gone, for when the loop's thread waits elsewhere than in
        `poll`."""

    def put(self, event: Event) -> None:
        self._events.put(event)
        if isinstance(event, Stop | Gone):
            self.leaving.set()

    def put_lines(self, lines: list[AnyLine]) -> None:
        """Blocks while too much is waiting already."""
        if not lines:
            return
        with self._room:
            self._room.wait_for(lambda: self._left > 0)
            self._left -= sum(map(_cost, lines))
        self._events.put(lines)

    @property
    def waiting(self) -> bool:
        """Something has come that `poll` has not taken in yet."""
        return not self._events.empty()

    def poll(self, wait: bool, timeout: float | None = None) -> bool:
        """Takes in all that has come; with `wait` sleeps until something does. False if nothing did for `timeout`
        seconds."""
        if wait:
            try:
                self._note(self._events.get(timeout=timeout))
            except queue.Empty:
                return False
        while not self._events.empty():
            self._note(self._events.get())
        return True

    def next_line(self) -> AnyLine | None:
        if not self.lines:
            return None
        line = self.lines.popleft()
        with self._room:
            self._left += _cost(line)
            self._room.notify()
        return line

    def _note(self, event: Event) -> None:
        match event:
            case Stop(signum):
                self.stop = signum
            case Gone():
                self.gone = event
            case News.END_OF_INPUT:
                self.ended = True
            case News.WAKE:
                pass
            case _:
                self.lines.extend(event)


def _cost(line: AnyLine) -> int:
    if isinstance(line, BadLine):
        return _LINE_COST
    return _LINE_COST + len(line.text) * (1 if line.text.isascii() else 4)
