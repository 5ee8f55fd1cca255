"""A daemon as a child process: its pipes, the last lines of its log, its end."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from signal import SIGKILL, SIGTERM
from typing import Self, TypeVar

KEPT_LINES = 20
PIECE = 1 << 16
PATIENCE = 5.0
LONGEST_LINE = str(64 << 20)  # bytes: a prompt is one line, and its ids are longer than its text
OUR_STREAM = ("--stream", "tagged", "--stream-fd", "1")
T = TypeVar("T")
Log = Callable[[str], object] | None


def daemon_command(args: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "paceline.daemon.main", *args]


def _with_stream(args: Sequence[str]) -> list[str]:
    """Puts ours before a "--", which ends the flags. The length of lines is not ours to insist on."""
    end = args.index("--") if "--" in args else len(args)
    return ["--max-line", LONGEST_LINE, *args[:end], *OUR_STREAM, *args[end:]]


class DaemonProcess:
    """A piped stderr is read all the time, so that the pipe never fills."""

    def __init__(self, process: Process, log: Log = None) -> None:
        assert process.stdin and process.stdout
        self.commands = process.stdin
        self.frames = process.stdout
        self.pid = process.pid
        self._process = process
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._listening = asyncio.create_task(listen(process.stderr, self._lines.append, log or str))

    @classmethod
    async def spawn(cls, args: Sequence[str], log: Log = None, stderr: int | None = PIPE) -> Self:
        """If `stderr` is None, it has this process's own: for its progress bars.

        Its frames are read here: tagged and on its stdout, whatever `args` say. It has a session of its own, so that a
        terminal's Ctrl-C reaches only us, and it is ours to pass on. It ends with its input, also if we are killed."""
        process = await asyncio.create_subprocess_exec(
            *daemon_command(_with_stream(args)), stdin=PIPE, stdout=PIPE, stderr=stderr, start_new_session=True
        )
        return cls(process, log)

    async def last_words(self) -> str:
        """How the process ended and the last lines of its log; called once its frames have ended."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), PATIENCE)
        await asyncio.wait([self._listening], timeout=PATIENCE)
        code = self._process.returncode
        how = "has not ended" if code is None else f"ended with exit code {code}"
        return "\n".join([f"the daemon {how}", *self._lines])

    async def stop(self, timeout: float) -> int:
        """Its exit code. After `timeout` seconds it is told to end (its live requests are cancelled), then it is
        killed; at once, if this call is cancelled."""
        try:
            for number in (SIGTERM, SIGKILL):
                with suppress(TimeoutError):
                    return await asyncio.wait_for(self._process.wait(), timeout)
                self._send(number)
                timeout = PATIENCE
            return await self._process.wait()
        except asyncio.CancelledError:
            self._send(SIGKILL)
            raise

    def _send(self, number: int) -> None:
        """Without Process.send_signal(), which looks whether it has ended: if so, that takes the exit code from the
        thread of asyncio that waits for it, which calls it 255 then, and says so on stderr."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


async def listen(stderr: asyncio.StreamReader | None, *takers: Callable[[str], object]) -> None:
    """Gives each line to each taker, whatever pieces it arrives in."""
    rest = b""
    while stderr and (data := await stderr.read(PIECE)):
        *lines, rest = (rest + data).split(b"\n")
        _tell(lines, takers)
    _tell([rest] if rest else [], takers)


def _tell(lines: Sequence[bytes], takers: Sequence[Callable[[str], object]]) -> None:
    for line in lines:
        text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]  # the last state of a progress bar
        for take in takers:
            told(take, text, "a taker of the daemon's log raised")


def told(take: Callable[[T], object], value: T, message: str) -> None:
    """Calls what is not ours: what it raises, sys.exit() too, goes to the event loop's exception handler, and ends
    nothing."""
    try:
        take(value)
    except (Exception, SystemExit) as problem:
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": problem})
