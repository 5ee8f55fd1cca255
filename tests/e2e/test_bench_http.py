"""scripts/bench_http.py and the load it makes: events are counted however they are cut, and the whole thing runs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from math import inf
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from bench_http import STREAMS
from http_load import LoadFailed, closed_loop

SCRIPTS = Path(__file__).parents[2] / "scripts"


def event(content: str | None) -> str:
    return "data: " + json.dumps({"choices": [{"delta": {"content": content}}]}, separators=(",", ":")) + "\n\n"


ANSWER = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
ANSWER += "".join(f"{len(text):x}\r\n{text}\r\n" for text in (event(""), event("one"), event("\n\n") + event("three")))
USAGE = 'data: {"choices":[],"usage":{"completion_tokens":3}}\n\n'
WHOLE = (ANSWER + USAGE + "data: [DONE]\n\n").encode()


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Any:
    """Answers each connection with the same bytes, so many at a time; gives its port and the requests."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[bytes] = []

    def start(answer: bytes, size: int) -> tuple[int, list[bytes]]:
        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                requests.append(connection.recv(1 << 16))
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for start in range(0, len(answer), size):
                    connection.sendall(answer[start : start + size])
                connection.close()

        Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1], requests

    yield start
    listener.close()


Start = Callable[[bytes, int], tuple[int, list[bytes]]]


@pytest.mark.parametrize("size", [1, 7, 1 << 16])
def test_events_are_counted_however_they_come(server: Start, size: int) -> None:
    port, requests = server(WHOLE, size)
    answers = closed_loop(port, [[{"n": 1}, {"n": 2}], [{"n": 3}]])
    assert [(len(answer.times), answer.tokens) for answer in answers] == [(3, 3)] * 3
    assert all(answer.begun <= answer.times[0] <= answer.times[-1] for answer in answers)
    assert sorted(json.loads(one.partition(b"\r\n\r\n")[2])["n"] for one in requests) == [1, 2, 3]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n{}", ANSWER.encode()])
def test_an_answer_that_is_none_is_an_error(server: Start, answer: bytes) -> None:
    with pytest.raises(LoadFailed):
        closed_loop(server(answer, 1 << 16)[0], [[{}]])


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_benchmark_runs(tmp_path: Path) -> None:
    path = tmp_path / "http.json"
    command = [sys.executable, SCRIPTS / "bench_http.py", "--quick", "--no-peer", "--json", path]
    subprocess.run(command, check=True)
    record = json.loads(path.read_text())
    # How fast it is, the benchmark says; here, that no stream had more than a token of each step.
    for pace, most in (("full_speed", inf), ("steps_of_1_ms", STREAMS * 1000), ("steps_of_5_ms", STREAMS * 200)):
        measured = record["proxy"][pace]
        assert all(0 < measured[way]["tokens_per_second"] < most for way in ("http", "pipe")), pace
    assert record["peer"]["results"]["paceline"]["first_token_ms"]["median"] > 0
