"""A real `paceline serve` with its daemon; no process outlives its test."""

import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from threading import Thread
from types import TracebackType
from typing import Any, Self

import httpx

from ...procfs import children

SECONDS = 60.0


class Served:
    """`said` is what it wrote on stderr so far. Without `ready` it may still be loading once it is constructed. `files`
    are the soft and the hard limit on how many it may have open."""

    def __init__(
        self, *flags: str, env: dict[str, str] | None = None, ready: bool = True, files: tuple[int, int] | None = None
    ) -> None:
        command = [sys.executable, "-m", "paceline.clients.cli", "serve", "--port", "0", *flags]
        environment = os.environ | (env or {})
        self.popen = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, files)) if files else None,
        )
        self.said: list[str] = []
        self._listener = Thread(target=self._listen, daemon=True)
        self._listener.start()
        self.url = re.split("listening on ", self.line(r"listening on http://\S+"))[1]
        if ready:
            self.line(": ready: ")
        self.http = httpx.Client(base_url=self.url, timeout=SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        self.http.close()
        self.popen.send_signal(signal.SIGINT)  # which ends the daemon too
        try:
            self.popen.wait(SECONDS)
        finally:
            self.popen.kill()
            self._listener.join()

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body)

    def completion(self, **body: Any) -> str:
        answer = self.post("/v1/completions", **body)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["choices"][0]["text"]
        return text

    def line(self, pattern: str, count: int = 1) -> str:
        """The last of `count` lines of its log that hold this, once they are there."""
        deadline = time.monotonic() + SECONDS
        while len(found := [line for line in self.said if re.search(pattern, line)]) < count:
            assert time.monotonic() < deadline and (self.popen.poll() is None or self._listener.is_alive()), self.said
            time.sleep(0.005)
        return found[count - 1]

    def states(self) -> list[str]:
        """Of the live requests, queued ones last."""
        live = self.http.get("/slots").json()
        requests = [slot["request"] for slot in live["slots"]] + live["queued"]
        return [request["state"] for request in requests if request]

    def until(self, met: Callable[[list[str]], bool]) -> None:
        deadline = time.monotonic() + SECONDS
        while not met(states := self.states()):
            assert time.monotonic() < deadline, states
            time.sleep(0.01)

    def interrupt(self) -> None:
        """As a terminal does at Ctrl-C: every process of the group is told."""
        os.killpg(self.popen.pid, signal.SIGINT)

    def stop(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(SECONDS)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def daemon(self) -> int:
        """The process behind it."""
        deadline = time.monotonic() + SECONDS
        while not (found := children(self.popen.pid)):
            assert time.monotonic() < deadline
        return found.pop()

    def _listen(self) -> None:
        assert self.popen.stderr
        with self.popen.stderr as log:
            for line in log:
                self.said.append(line.rstrip("\n"))
