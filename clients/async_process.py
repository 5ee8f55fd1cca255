"""A daemon as a child process of an event loop."""

import asyncio
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from .process import PATIENCE, PIECE, LogTail, daemon_command


class AsyncDaemonProcess:
    """stderr is read all the time, so that it never fills."""

    def __init__(self, process: Process, log: Callable[[str], None] | None = None) -> None:
        assert process.stdin and process.stdout and process.stderr
        self._process = process
        self.commands = process.stdin
        self.frames = process.stdout
        self.pid = process.pid
        self._tail = LogTail(log)
        self._listener = asyncio.create_task(self._listen(process.stderr))

    @classmethod
    async def spawn(cls, args: Sequence[str], log: Callable[[str], None] | None = None) -> Self:
        command = daemon_command(args)
        return cls(await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE), log)

    async def last_words(self) -> str:
        """How the process ended and what it said; called once its frames have ended."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), PATIENCE)
        await asyncio.wait([self._listener], timeout=PATIENCE)
        return self._tail.told(self._process.returncode)

    async def stop(self, timeout: float) -> int:
        """Its exit code. After `timeout` seconds it is told to end (its live requests are cancelled), then it is
        killed."""
        for end in (self._process.terminate, self._process.kill):
            with suppress(TimeoutError):
                return await asyncio.wait_for(self._process.wait(), timeout)
            with suppress(ProcessLookupError):
                end()
            timeout = PATIENCE
        return await self._process.wait()

    async def _listen(self, stderr: asyncio.StreamReader) -> None:
        while data := await stderr.read(PIECE):
            self._tail.feed(data)
        self._tail.feed(b"")
