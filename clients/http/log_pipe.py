"""Descriptor 2 of `paceline serve`: a pipe that nobody reads holds up neither the proxy nor its daemon."""

import os
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Condition, Thread
from typing import Final

MOST_LINES: Final = 4096  # that wait to be written
PIECE: Final = 1 << 16
LAST_SECONDS: Final = 1.0  # for what is left at the end


def say(text: str) -> None:
    """A line for people. Nobody may be there to read it."""
    with suppress(OSError):
        os.write(2, f"{text}\n".encode(errors="backslashreplace"))


@contextmanager
def log_pipe() -> Iterator[None]:
    """Within it, whatever is written to descriptor 2, by this process or its children, goes through a LogPipe. A
    terminal is left alone, because progress bars ask whether it is one, and so is a file, which never blocks."""
    if not _may_block():
        yield
        return
    target = os.dup(2)
    source, end = os.pipe()
    os.dup2(end, 2)
    os.close(end)
    pipe = LogPipe(source, target)
    try:
        yield
    finally:
        os.dup2(target, 2)  # this ends the pipe, unless a child still holds it
        pipe.join(LAST_SECONDS)


class LogPipe:
    """Lines from one descriptor to another: read all the time, written by another thread. Lines that do not fit are
    dropped, and their number is logged in their place once writing continues."""

    def __init__(self, source: int, target: int) -> None:
        self._source = source
        self._target = target
        self._changed = Condition()
        self._waiting: list[bytes] = []
        self._lost = 0
        self._ended = False
        self._writer = Thread(target=self._write, name="log writer", daemon=True)
        self._writer.start()
        Thread(target=self._read, name="log reader", daemon=True).start()

    def join(self, timeout: float) -> None:
        """Waits until all is written, `timeout` seconds at most."""
        self._writer.join(timeout)

    def _read(self) -> None:
        rest = b""
        while data := os.read(self._source, PIECE):
            *lines, rest = (rest + data).split(b"\n")
            self._put([line + b"\n" for line in lines])
            if len(rest) > PIECE:
                self._put([rest])
                rest = b""
        self._put([rest] if rest else [], ended=True)

    def _put(self, lines: list[bytes], ended: bool = False) -> None:
        with self._changed:
            room = MOST_LINES - len(self._waiting)
            self._waiting += lines[:room]
            self._lost += len(lines[room:])
            self._ended = ended
            self._changed.notify()

    def _write(self) -> None:
        ended = False
        while not ended:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._ended)
                lines, self._waiting = self._waiting, []
                lost, self._lost = self._lost, 0
                ended = self._ended
            if lost:
                lines.append(b"paceline serve: %d lines of this log are lost, as nobody read it\n" % lost)
            for line in lines:
                _write_all(self._target, line)


def _may_block() -> bool:
    try:
        kind = os.fstat(2).st_mode
    except OSError:  # there is none
        return False
    return not (os.isatty(2) or stat.S_ISREG(kind))


def _write_all(target: int, line: bytes) -> None:
    """Nobody may be there to read it any more; or the parent left the descriptor in non-blocking mode."""
    with suppress(OSError):
        while line:
            try:
                line = line[os.write(target, line) :]
            except BlockingIOError:
                select.select([], [target], [])
