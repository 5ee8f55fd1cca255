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


class DaemonProcess:
    """stderr is read all the time, so that it never fills; its last lines are kept, and each goes to `log` if one is
    given."""

    def __init__(self, args: Sequence[str], log: Callable[[str], None] | None = None) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "paceline.daemon.main", *args]
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self.commands: IO[bytes] = self._process.stdin
        self.frames = cast(BufferedReader, self._process.stdout)
        self.pid = self._process.pid
        self._log = log
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._listener = Thread(target=self._listen, args=(self._process.stderr,), daemon=True)
        self._listener.start()

    def last_words(self) -> str:
        """How the process ended and what it said; called once its frames have ended."""
        try:
            how = f"ended with exit code {self._process.wait(PATIENCE)}"
        except subprocess.TimeoutExpired:
            how = "closed its frame stream but has not ended"
        self._listener.join(PATIENCE)
        return "\n".join([f"the daemon {how}", *self._lines])

    def stop(self, timeout: float) -> int:
        """Its exit code. After `timeout` seconds it is told to end (its live requests are cancelled), then it is
        killed."""
        for end in (self._process.terminate, self._process.kill):
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(timeout)
            end()
            timeout = PATIENCE
        return self._process.wait()

    def _listen(self, stderr: IO[bytes]) -> None:
        with stderr:
            for line in stderr:
                text = line.decode("utf-8", "replace").rstrip("\r\n").rpartition("\r")[2]
                self._lines.append(text)
                if self._log:
                    self._log(text)
