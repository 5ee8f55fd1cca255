"""The limit on open files: raised as far as it goes, and not met, however many connect."""

import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import httpx

from .served import SECONDS, Served

HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
FLOOD = 300


def flood(served: Served, others: ExitStack) -> None:
    for _ in range(FLOOD):
        others.enter_context(socket.create_connection(("127.0.0.1", served.port)))


def test_more_connections_than_descriptors() -> None:
    with Served("--engine", "null", "--fault", "slow:5", files=(256, 256)) as served, ExitStack() as others:
        assert served.line("--max-connections: 1024, but 256 open files .* are enough for 96 only")
        asked = {"prompt": "Hi", "max_tokens": 1000, "stream": True}
        with served.http.stream("POST", "/v1/completions", json=asked) as stream:
            events = stream.iter_lines()
            next(events)
            flood(served, others)
            for _ in range(3):
                assert httpx.get(f"{served.url}/health", timeout=SECONDS).json() == {"status": "ok"}
                told = httpx.post(f"{served.url}/tokenize", json={"content": "Hi"}, timeout=SECONDS)
                assert told.json()["count"] == 2, told.text
            assert list(filter(None, events))[-1] == "data: [DONE]"
        assert len("\n".join(served.said)) < 3000, served.said


def test_the_soft_limit_is_raised() -> None:
    with Served("--engine", "null", files=(100, HARD)) as served, ExitStack() as others:
        flood(served, others)
        assert served.completion(prompt="Hi", max_tokens=5)
        assert len(list(Path(f"/proc/{served.popen.pid}/fd").iterdir())) > FLOOD
        assert not any("--max-connections" in line for line in served.said)
