"""The two servers of bench_serving.py behind one interface: requests in, the time of every token out.

Both are real processes: `paceline daemon` at the other end of its pipes, llama.cpp's server at the other end of HTTP.
Times are perf_counter's, taken where a client would take them: when the bytes of a token have been read.
"""

import http.client
import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from io import BufferedReader
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, cast

from paceline.clients.process import daemon_command
from paceline.clients.start_line import start_line
from paceline.native.files.demo_model import cache_folder
from paceline.protocol import DONE, TERMINALS, Frame, FrameReader, Message

SLOTS = 16
CONTEXT = 2048  # positions of a slot
PATIENCE = 120.0  # seconds until a server is ready


class ServerFailed(Exception):
    pass


@dataclass(frozen=True)
class Request:
    """Exactly `total` tokens are generated: an end of sequence is a token like any other."""

    req_id: int
    prompt: list[int]
    total: int
    arrival: float = 0.0  # seconds after the run's begin


class Server(Protocol):
    name: str
    times: dict[int, list[float]]  # by request: when each token was read
    ended: SimpleQueue[int | Exception]  # the ids of requests that have ended, in that order; or what went wrong

    def start(self, requests: Sequence[Request], **options: Any) -> None:
        """Starts all at the same moment. An id is used only once in a server's lifetime."""

    def close(self) -> None: ...


class Daemon:
    name = "paceline"

    def __init__(self, model: Path, threads: int, *flags: str) -> None:
        sizes = [f"--slots={SLOTS}", f"--max-ctx={CONTEXT}", f"--threads={threads}", "--queue=1024"]
        command = daemon_command([*sizes, "--auto", "--stream=tagged", *flags, str(model)])
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout
        self._commands, self._frames = self.process.stdin, cast(BufferedReader, self.process.stdout)
        self.times: dict[int, list[float]] = {}
        self.ended: SimpleQueue[int | Exception] = SimpleQueue()
        self.ends: dict[int, dict[str, Any]] = {}  # the `end` event of each request
        ready: SimpleQueue[dict[str, Any]] = SimpleQueue()
        Thread(target=self._read, args=(ready,), daemon=True).start()
        self.facts = ready.get(timeout=PATIENCE)
        if "event" not in self.facts:
            raise SystemExit(f"the daemon ended with exit code {self.process.wait(PATIENCE)}")

    def start(self, requests: Sequence[Request], **options: Any) -> None:
        self.times.update((one.req_id, []) for one in requests)
        words = {"ignore_eos": 1} | options
        lines = [start_line(one.req_id, one.prompt, one.total, None, words) for one in requests]
        self._commands.write("".join(f"{line}\n" for line in lines).encode())
        self._commands.flush()

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)

    def _read(self, ready: SimpleQueue[dict[str, Any]]) -> None:
        reader = FrameReader()
        while data := self._frames.read1(1 << 16):
            now = time.perf_counter()
            for item in reader.feed(data):
                match item:
                    case Frame(req_id, value) if value >= 0:
                        self.times[req_id].append(now)
                    case Frame(req_id, value) if value in TERMINALS:
                        self.ended.put(req_id if value == DONE else ServerFailed(f"{self.ends.get(req_id)}"))
                    case Message(body={"event": "ready"} as body):
                        ready.put(body)
                    case Message(body={"event": "end", "req": req_id} as body):
                        self.ends[req_id] = body
                    case Message(body={"ok": False} as body):
                        self.ended.put(ServerFailed(f"{body}"))
        ready.put({})  # for whoever still waits for the event, which will not come
        self.ended.put(ServerFailed("the daemon has ended; its log says why"))


class LlamaServer:
    """Started as its users do, with continuous batching and flash attention as it chooses; each slot has our context
    size."""

    name = "llama.cpp"

    def __init__(self, binary: Path, model: Path, threads: int, *flags: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        words = [binary, "--model", model, "--host", "127.0.0.1", "--port", self.port]
        words += ["--parallel", SLOTS, "--ctx-size", SLOTS * CONTEXT, "--threads", threads, "--threads-batch", threads]
        words += ["--cache-ram", 0, "--no-ui"]  # otherwise prompts of ended requests would be copied to RAM
        words += flags
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen([str(word) for word in words], stdout=quiet, stderr=quiet)
        self.times: dict[int, list[float]] = {}
        self.ended: SimpleQueue[int | Exception] = SimpleQueue()
        deadline = time.monotonic() + PATIENCE
        while not self._healthy():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise SystemExit(f"{binary}: it is not ready; exit code {self.process.poll()}")
            time.sleep(0.1)

    def start(self, requests: Sequence[Request], **options: Any) -> None:
        self.times.update((one.req_id, []) for one in requests)
        for one in requests:
            body = {
                "prompt": one.prompt,
                "n_predict": one.total,
                "stream": True,
                "temperature": 0.0,
                "ignore_eos": True,
            }
            data = json.dumps(body | {"cache_prompt": False} | options).encode()
            Thread(target=self._serve, args=(one.req_id, data), daemon=True).start()

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def _serve(self, req_id: int, data: bytes) -> None:
        """Posts one request and reads its events; an event may carry more than one token."""
        times = self.times[req_id]
        try:
            self._stream(times, data)
            self.ended.put(req_id)
        except (OSError, http.client.HTTPException, ValueError) as problem:
            self.ended.put(ServerFailed(f"request {req_id}: {problem!r}"))

    def _stream(self, times: list[float], data: bytes) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", "/completion", data, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200:
            raise ValueError(reply.read())
        for line in reply:
            now = time.perf_counter()
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                times += [now] * (event["tokens_predicted"] - len(times))
        connection.close()

    def _healthy(self) -> bool:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        return False


def find_llama_server(given: Path | None) -> Path | None:
    """The one given, or what scripts/build_llama_server has built; None if there is none."""
    with suppress(ModuleNotFoundError):
        built = cache_folder() / f"llama-server-{version('llama-cpp-python')}" / "build" / "bin" / "llama-server"
        given = given or built
    return given if given and os.access(given, os.X_OK) else None
