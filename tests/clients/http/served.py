"""A real `paceline serve` with its daemon; no process outlives its test."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import httpx

SECONDS = 60.0


class Served:
    def __init__(self, *flags: str, env: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "paceline.clients.cli", "serve", "--port", "0", *flags]
        environment = os.environ | (env or {})
        self.popen = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        assert self.popen.stderr
        self.url = ""
        self.said: list[str] = []
        while not (self.url and any(": ready: " in line for line in self.said)):
            line = self.popen.stderr.readline()
            assert line, f"it ended: {self.said}"
            self.said.append(line)
            if found := re.search(r"listening on (http://\S+)", line):
                self.url = found[1]
        self.http = httpx.Client(base_url=self.url, timeout=SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, problem: object, trace: TracebackType | None) -> None:
        self.http.close()
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        assert self.popen.stderr
        self.popen.stderr.close()

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body)

    def completion(self, **body: Any) -> str:
        answer = self.post("/v1/completions", **body)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["choices"][0]["text"]
        return text

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

    def stop(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(SECONDS)
