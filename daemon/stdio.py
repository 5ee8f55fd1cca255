"""The descriptors: whatever the daemon reads from and writes to outside of files. Threads here, and nowhere else.

Descriptor 1 is claimed first of all: its copy carries the frames, and 1 itself becomes the log, so that a stray print
of any library cannot corrupt the stream. Reader and writer move bytes between the descriptors and the inbox and outbox.
Signals are watched by a thread of their own, which wakes at once even while a step keeps the main thread busy.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import signal
import stat
import threading
import time
from collections.abc import Callable
from types import FrameType

from ..protocol import LineReader
from .inbox import Gone, Inbox, News, Stop
from .outbox import Outbox

PIECE = 1 << 16
PATIENCE_MS = 1000
SLICE_MS = 100
FLUSH_SECONDS = 5.0
"""How long an ending daemon waits for whoever reads its stream."""
FILE_PIECE = 1 << 20
"""Bytes read at once from a regular file on stdin: its lines arrive together, however fast the steps are."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


def claim_output(stream_fd: int) -> int:
    """The descriptor that frames go to. Raises OSError if there is none."""
    _open_missing()
    claimed = fcntl.fcntl(stream_fd, fcntl.F_DUPFD_CLOEXEC, 3)
    if fcntl.fcntl(claimed, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "not open for writing")
    os.dup2(2, 1)
    return claimed


def _open_missing() -> None:
    """Nothing that is opened later may become descriptor 0 or 2 by chance."""
    for descriptor in (0, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)


def log(text: str) -> None:
    """One line for people, or several. Perhaps nobody reads them: what finds no room for a second is dropped."""
    rest = memoryview(_line(text))
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    with contextlib.suppress(OSError):
        while rest and poll.poll(PATIENCE_MS):
            rest = rest[os.write(2, rest[: select.PIPE_BUF]) :]


class Patience:
    """How much longer the daemon waits for its reader, once it is to end."""

    def __init__(self, leaving: threading.Event, seconds: float = FLUSH_SECONDS) -> None:
        self._leaving = leaving
        self._seconds = seconds
        self._deadline: float | None = None

    def left(self) -> float | None:
        """Seconds left, counted from the first time that this is asked; None while the daemon is not to end."""
        if not self._leaving.is_set():
            return None
        if self._deadline is None:
            self._deadline = time.monotonic() + self._seconds
        return max(0.0, self._deadline - time.monotonic())


class Teller:
    """Writes a line that somebody asked for, and waits for room while patience lasts; after that what finds none is
    dropped. Works for a stderr in non-blocking mode, too."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._poll = select.poll()
        self._poll.register(2, select.POLLOUT)

    def __call__(self, text: str) -> None:
        rest = memoryview(_line(text))
        while rest:
            late = self._patience.left() == 0.0
            if self._poll.poll(0 if late else SLICE_MS):
                try:
                    rest = rest[os.write(2, rest[: select.PIPE_BUF]) :]
                except BlockingIOError:  # somebody else took the room
                    continue
                except OSError:
                    return
            elif late:
                return


def _line(text: str) -> bytes:
    return f"{text}\n".encode(errors="backslashreplace")


def start_reader(inbox: Inbox, max_line: int, descriptor: int = 0) -> None:
    _start("reader", lambda: _read(inbox, max_line, descriptor))


def start_writer(outbox: Outbox, inbox: Inbox, descriptor: int) -> None:
    _start("writer", lambda: _write(outbox, inbox, descriptor))


def write_now(descriptor: int) -> Callable[[bytes], int]:
    """A function that writes a piece if that cannot block, and returns how much it wrote. Errors are left to the writer
    thread.

    A pipe that polls as writable has room for PIPE_BUF bytes (as long as nobody else writes to it); a regular file
    always has. About other descriptors nothing is known.
    """
    kind = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind)):
        return lambda data: 0
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)

    def write(data: bytes) -> int:
        try:
            if len(data) > select.PIPE_BUF or poll.poll(0) != [(descriptor, select.POLLOUT)]:
                return 0
            return os.write(descriptor, data)
        except OSError:
            return 0

    return write


class SignalWatch:
    """The first SIGTERM or SIGINT goes to the inbox, the second ends the process at once.

    While `starting` there is nothing to finish yet: the first one ends the process, with exit code 0.
    """

    def __init__(self, inbox: Inbox) -> None:
        self.starting = True
        self._own = False  # a SIGTERM that nobody sent
        self._inbox = inbox
        self._pipe, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for signum in SIGNALS:
            signal.signal(signum, self._handle)
        _start("signals", self._watch)

    def end_start(self) -> None:
        """For another thread: ends a process that is still starting as a signal would. It is not one of the two."""
        if self.starting:
            self._own = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if self.starting:
            self.starting = False
            raise SystemExit(0)

    def _watch(self) -> None:
        self._inbox.put(Stop(self._next()))
        os._exit(128 + self._next())

    def _next(self) -> int:
        """The number of the next signal that came from outside."""
        while (signum := os.read(self._pipe, 1)[0]) == signal.SIGTERM and self._own:
            self._own = False
        return signum


def start_hangup_watch(inbox: Inbox, descriptor: int, signals: SignalWatch) -> None:
    """Tells the loop when the last reader has left, also while there is nothing to write. A daemon that is starting is
    ended by that: a model may take minutes to load, and nobody would see what comes of it."""
    poll = select.poll()
    poll.register(descriptor, 0)  # errors and hang-ups are always reported

    def watch() -> None:
        poll.poll()
        inbox.put(Gone(None))
        signals.end_start()

    _start("hang-up", watch)


def _start(name: str, run: Callable[[], None]) -> None:
    threading.Thread(target=run, name=name, daemon=True).start()


def _read(inbox: Inbox, max_line: int, descriptor: int) -> None:
    reader = LineReader(max_line)
    try:
        size = FILE_PIECE if stat.S_ISREG(os.fstat(descriptor).st_mode) else PIECE
        while data := _read_piece(descriptor, size):
            inbox.put_lines(reader.feed(data))
    except OSError as error:
        log(f"paceline: standard input cannot be read ({error.strerror}): taken as its end")
    except MemoryError:
        log("paceline: no memory for what comes on standard input: taken as its end")
    inbox.put_lines(reader.close())
    inbox.put(News.END_OF_INPUT)


def _read_piece(descriptor: int, size: int) -> bytes:
    while True:
        try:
            return os.read(descriptor, size)
        except BlockingIOError:
            _wait(descriptor, select.POLLIN)


def _write(outbox: Outbox, inbox: Inbox, descriptor: int) -> None:
    try:
        while data := outbox.take():
            rest = memoryview(data)
            while rest:
                count = _write_piece(descriptor, rest[:PIECE])
                rest = rest[count:]
                outbox.written(count)
    except (BrokenPipeError, ConnectionError):
        inbox.put(Gone(None))
    except OSError as error:
        inbox.put(Gone(error))


def _write_piece(descriptor: int, piece: memoryview) -> int:
    while True:
        try:
            return os.write(descriptor, piece)
        except BlockingIOError:
            _wait(descriptor, select.POLLOUT)


def _wait(descriptor: int, event: int) -> None:
    """For a descriptor that the parent left in non-blocking mode."""
    poll = select.poll()
    poll.register(descriptor, event)
    poll.poll()
