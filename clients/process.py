"""A daemon as a child process: its pipes, its last words, its end."""

import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import BufferedReader
from threading import Thread
from typing import IO, cast

KEPT_LINES = 20
PATIENCE = 5.0
PIECE = 1 << 16


def daemon_command(args: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "paceline.daemon.main", *args]


class LogTail:
    """A log that comes in pieces: its last lines are kept, and each goes to `log` if one is given."""

    def __init__(self, log: Callable[[str], None] | None) -> None:
        self._log = log
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Empty at the end."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole if data or not self._rest else [self._rest]:
            text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]  # what a progress bar left
            self._lines.append(text)
            if self._log:
                self._log(text)

    def told(self, code: int | None) -> str:
        """How the process ended, None if it has not, and what it said."""
        how = "closed its frame stream but has not ended" if code is None else f"ended with exit code {code}"
        return "\n".join([f"the daemon {how}", *self._lines])


class DaemonProcess:
    """stderr is read all the time, so that it never fills."""

    def __init__(self, args: Sequence[str], log: Callable[[str], None] | None = None) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(daemon_command(args), stdin=pipe, stdout=pipe, stderr=pipe)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self.commands: IO[bytes] = self._process.stdin
        self.frames = cast(BufferedReader, self._process.stdout)
        self.pid = self._process.pid
        self._tail = LogTail(log)
        self._listener = Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()

    def last_words(self) -> str:
        """How the process ended and what it said; called once its frames have ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        self._listener.join(PATIENCE)
        return self._tail.told(self._process.poll())

    def stop(self, timeout: float) -> int:
        """Its exit code. After `timeout` seconds it is told to end (its live requests are cancelled), then it is
        killed."""
        for end in (self._process.terminate, self._process.kill):
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(timeout)
            end()
            timeout = PATIENCE
        return self._process.wait()

    def _listen(self, stderr: BufferedReader) -> None:
        with stderr:
            while data := stderr.read1(PIECE):
                self._tail.feed(data)
        self._tail.feed(b"")
