"""The file of a trace: one JSON array of events, an event a line.

The format allows its closing bracket to be missing, so what has been written can be opened at any time, also after the
process has died. Nothing here blocks: a full pipe is an error like a full disk.
"""

from __future__ import annotations

import contextlib
import json
import os

from .timeline import Event

SECONDS = 1.0
"""How long an event may be buffered before it is written."""

_PIECE = 1 << 16  # characters
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_encode = json.JSONEncoder(separators=(",", ":")).encode


class TraceFile:
    """Any method may raise OSError; after that only `abandon` makes sense. The opening is written at once."""

    def __init__(self, path: str, opening: list[Event], now: float) -> None:
        self.path = path
        self._descriptor = os.open(path, _FLAGS, 0o666)
        self._waiting: list[str] = ["["]
        self._size = 1
        self._whole = 0  # bytes of the file up to the end of a whole event
        self._separator = "\n"
        self._flushed = now
        try:
            self.add(opening, now)
            self.flush()
        except OSError:
            self.abandon()
            raise

    def add(self, events: list[Event], now: float) -> None:
        for event in events:
            text = f"{self._separator}{_encode(event)}"
            self._separator = ",\n"
            self._waiting.append(text)
            self._size += len(text)
        if self._size > _PIECE or now - self._flushed >= SECONDS:
            self._flushed = now
            self.flush()

    def flush(self) -> None:
        if not self._size:
            return
        data = "".join(self._waiting).encode()
        self._waiting.clear()
        self._size = 0
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        self._whole += len(data)

    def close(self, closing: list[Event], now: float) -> None:
        self.add(closing, now)
        self._waiting.append("\n]\n")
        self._size += 3
        self.flush()
        os.close(self._descriptor)

    def abandon(self) -> None:
        """After an error: half an event is cut off again, so that the rest can be opened."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, self._whole)
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
