"""A real daemon process at the other end of three pipes. Every wait has a deadline; no process outlives its test."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from paceline.protocol import TERMINALS, Frame, FrameReader, Item, Message

from ..procfs import cpu_seconds, is_asleep

SECONDS = 20.0


class Process:
    """`items` is all that has been read. Use it as a context manager: it kills what still runs."""

    def __init__(self, *flags: str, engine: str = "null", **popen: Any) -> None:
        command = [sys.executable, "-m", "paceline.daemon.main", "--engine", engine, "--stream", "tagged", *flags]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.popen = subprocess.Popen(command, bufsize=0, **(pipes | popen))
        self.items: list[Item] = []
        self._reader = FrameReader()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        for stream in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if stream is not None:
                stream.close()

    def send(self, *lines: str) -> None:
        self.write("".join(f"{line}\n" for line in lines).encode())

    def write(self, data: bytes) -> None:
        assert self.popen.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.popen.stdin.write(view) :]

    def close_input(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.close()

    def read_until(self, met: Callable[[Item], bool], seconds: float = SECONDS) -> Item:
        """The first item that meets it, read before or to be read."""
        deadline = time.monotonic() + seconds
        start = 0
        while True:
            for item in self.items[start:]:
                if met(item):
                    return item
            start = len(self.items)
            assert self._read(deadline), f"the stream ended; read {self.items[-5:]}; log: {self.log()}"

    def reply(self, line: int, seconds: float = SECONDS) -> dict[str, Any]:
        return self.read_until(lambda item: is_reply(item, line), seconds).body  # type: ignore[union-attr]

    def ready(self) -> dict[str, Any]:
        item = self.read_until(lambda item: True)
        assert isinstance(item, Message) and item.body["event"] == "ready"
        return item.body

    def finish(self, seconds: float = SECONDS) -> int:
        """Ends the input, reads to the end of the stream; the exit code."""
        if self.popen.stdin is not None and not self.popen.stdin.closed:
            self.close_input()
        return self.read_to_end(seconds)

    def read_to_end(self, seconds: float = SECONDS) -> int:
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        self._reader.close()
        return self.popen.wait(max(0.1, deadline - time.monotonic()))

    def log(self) -> str:
        """What is on stderr, once the process has ended."""
        assert self.popen.stderr is not None
        os.set_blocking(self.popen.stderr.fileno(), False)
        return (self.popen.stderr.read() or b"").decode()

    def signal(self, signum: signal.Signals) -> None:
        self.popen.send_signal(signum)

    def tokens(self, req_id: int) -> list[int]:
        return [
            item.value for item in self.items if isinstance(item, Frame) and item.req_id == req_id and item.value >= 0
        ]

    def terminals(self, req_id: int) -> list[int]:
        return [
            item.value
            for item in self.items
            if isinstance(item, Frame) and item.req_id == req_id and item.value in TERMINALS
        ]

    def end_of(self, req_id: int) -> dict[str, Any]:
        """The event of a request that has ended."""
        for item in self.items:
            if isinstance(item, Message) and item.body.get("event") == "end" and item.body["req"] == req_id:
                return item.body
        raise AssertionError(f"request {req_id} has no end")

    def _read(self, deadline: float) -> bool:
        assert self.popen.stdout is not None
        left = deadline - time.monotonic()
        readable, _, _ = select.select([self.popen.stdout], [], [], max(0.0, left))
        assert readable, f"nothing came in time; read {self.items[-5:]}; log: {self.log()}"
        data = os.read(self.popen.stdout.fileno(), 1 << 16)
        self.items += self._reader.feed(data)
        return bool(data)


def is_reply(item: Item, line: int) -> bool:
    return isinstance(item, Message) and item.body.get("re") == line


def is_end(item: Item, req_id: int) -> bool:
    return isinstance(item, Frame) and item.req_id == req_id and item.value in TERMINALS


def wait_until_asleep(pid: int, seconds: float = SECONDS) -> None:
    """Until a process has computed nothing for a while."""
    deadline = time.monotonic() + seconds
    spent = -1.0
    while spent != (now := cpu_seconds(pid)) or not is_asleep(pid):
        assert time.monotonic() < deadline, f"process {pid} is still busy"
        spent = now
        time.sleep(0.3)
