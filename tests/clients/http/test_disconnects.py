"""A reader that goes away, whatever its request is doing: it is cancelled before the next step, it alone, and nobody
else's tokens change."""

import json
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from .served import Served

STEP = 0.06  # seconds
FLAGS = ("--engine", "null", "--slots", "2", "--log", "json")
SLOW = ("--engine", "null", "--fault", "slow:20", "--slots", "1", "--queue", "1")
MOST = 60  # tokens of the neighbour
NEIGHBOUR = {"prompt": "neighbour", "temperature": 0}
ASKED = {"prompt": "Hi", "max_tokens": 2000, "temperature": 0}


@pytest.fixture(scope="module")
def alone() -> str:
    with Served("--engine", "null") as served:
        return served.completion(**NEIGHBOUR, max_tokens=MOST)


class Left:
    """A request whose reader goes away when it is told to. `behind` is what it sends behind the request; `chunks` are
    those that were read before it goes."""

    def __init__(self, served: Served, path: str, body: dict[str, Any], behind: bytes = b"") -> None:
        self.chunks = 0
        self._socket = socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])))
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n"
        self._socket.sendall(head.encode() + data + behind)

    def read(self, chunks: int) -> None:
        while self.chunks < chunks:
            data = self._socket.recv(1 << 16)
            assert data
            self.chunks += data.count(b"data: ")

    def leave(self) -> None:
        self._socket.close()


@contextmanager
def beside_a_neighbour(alone: str, step: float = STEP, most: int = MOST) -> Iterator[Served]:
    """A server with one request that decodes all the time, and must not notice anything."""
    with Served(*FLAGS, "--fault", f"slow:{1e3 * step:g}") as served, ThreadPoolExecutor(1) as pool:
        neighbour: Future[str] = pool.submit(served.completion, **NEIGHBOUR, max_tokens=most)
        served.until(lambda states: states == ["decode"])
        yield served
        served.until(lambda states: states in ([], ["decode"]))
        said = neighbour.result()
        assert alone.startswith(said) and len(said.split()) == most
        assert served.states() == []


def end_of(served: Served, count: int = 1) -> dict[str, Any]:
    """What the daemon says of the request that was the count-th to be cancelled."""
    found: dict[str, Any] = json.loads(served.line('"reason":"cancelled"', count))
    return found


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions", "/v1/messages"])
def test_in_decode(alone: str, path: str) -> None:
    body = ASKED if path == "/v1/completions" else {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2000}
    with beside_a_neighbour(alone, 0.2, 20) as served:
        reader = Left(served, path, body | {"stream": True})
        reader.read(5)
        read = reader.chunks
        reader.leave()
        end = end_of(served)
        assert read - 2 <= end["tokens"] <= read + 2  # events that are no tokens, and the step that was running


@pytest.mark.parametrize("stream", [True, False])
def test_with_another_request_behind_it(alone: str, stream: bool) -> None:
    with beside_a_neighbour(alone) as served:
        reader = Left(served, "/v1/completions", ASKED | {"stream": stream}, b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        served.until(lambda states: states == ["decode", "decode"])
        reader.leave()
        assert end_of(served)["tokens"] < MOST


@pytest.mark.parametrize("stream", [True, False])
def test_in_prefill(alone: str, stream: bool) -> None:
    with beside_a_neighbour(alone) as served:  # which decodes, so a step takes 64 tokens of prompt at most: 60 steps
        reader = Left(served, "/v1/completions", {"prompt": [1] * 3800, "max_tokens": 9, "stream": stream})
        served.until(lambda states: sorted(states) == ["decode", "prefill"])
        reader.leave()
        began = time.monotonic()
        end = end_of(served)
        assert end["tokens"] == 0 and end["latency_ms"] < 60 * 1e3 * STEP
        assert time.monotonic() - began < 20 * STEP, "expected that it ends long before its prefill"


@pytest.mark.parametrize("stream", [True, False])
def test_in_the_queue(alone: str, stream: bool) -> None:
    with beside_a_neighbour(alone) as served:
        second = Left(served, "/v1/completions", ASKED)
        served.until(lambda states: states == ["decode", "decode"])
        reader = Left(served, "/v1/completions", ASKED | {"stream": stream})
        served.until(lambda states: states == ["decode", "decode", "queued"])
        reader.leave()
        assert end_of(served)["tokens"] == 0
        assert served.states() == ["decode", "decode"]
        second.leave()
        assert end_of(served, 2)["tokens"] > 0


def test_all_answers_of_a_request_are_cancelled(alone: str) -> None:
    with beside_a_neighbour(alone) as served:
        reader = Left(served, "/v1/completions", ASKED | {"n": 4, "stream": True})
        served.until(lambda states: sorted(states) == ["decode", "decode", "queued", "queued", "queued"])
        reader.leave()
        end_of(served, 4)


def test_before_the_body_is_there(alone: str) -> None:
    """Nothing was asked for yet, so nothing is cancelled."""
    with beside_a_neighbour(alone) as served:
        body = iter([b'{"prompt": "Hi",', None])

        def pieces() -> Iterator[bytes]:
            for piece in body:
                if piece is None:
                    raise KeyError("enough")
                yield piece

        with pytest.raises(KeyError):
            httpx.post(f"{served.url}/v1/completions", content=pieces())
    assert not any('"cancelled"' in line for line in served.said)


def test_many_that_come_and_go(alone: str) -> None:
    leave: list[Callable[[], None]] = []
    with beside_a_neighbour(alone) as served:
        for number in range(12):
            reader = Left(served, "/v1/completions", ASKED | {"stream": number % 2 == 0})
            leave.append(reader.leave)
            if number % 3 == 0:
                time.sleep(STEP)
            if len(leave) > 2:
                leave.pop(0)()
        for go in leave:
            go()
    assert not any(re.search("Traceback|Exception|ERROR", line) for line in served.said)


def test_a_reader_that_goes_away_frees_its_slot_in_every_state() -> None:
    with Served(*SLOW, "--prefill-tokens", "64") as served:
        alone = served.completion(prompt="Hi", max_tokens=20, temperature=0)
        asked = {"prompt": "Hi", "max_tokens": 2000, "temperature": 0}
        with served.http.stream("POST", "/v1/completions", json=asked | {"stream": True}) as stream:
            lines = stream.iter_lines()
            next(lines)
            served.until(lambda states: states == ["decode"])
            for more in ({"stream": True}, {}):  # queued
                with httpx.Client(base_url=served.url, timeout=0.3) as other, pytest.raises(httpx.ReadTimeout):
                    other.post("/v1/completions", json=asked | more)
                served.until(lambda states: states == ["decode"])
        served.until(lambda states: states == [])
        long = {"prompt": [1] * 4000, "max_tokens": 5}  # prefill: 63 steps
        with httpx.Client(base_url=served.url, timeout=0.2) as other, pytest.raises(httpx.ReadTimeout):
            other.post("/v1/completions", json=long)
        served.until(lambda states: states == [])
        assert served.completion(prompt="Hi", max_tokens=20, temperature=0) == alone


def test_a_reader_that_does_not_read_is_cancelled_and_nobody_else_notices() -> None:
    with Served("--engine", "null", "--max-ctx", "200000") as served:
        asked = {"prompt": "Hi", "max_tokens": 30, "temperature": 0}
        alone = served.completion(**asked)
        body = json.dumps({"prompt": "Hi", "max_tokens": 190_000, "stream": True}).encode()
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            lazy.connect(("127.0.0.1", served.port))
            head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
            lazy.sendall(head.encode() + body)
            served.until(lambda states: states == ["decode"])
            assert served.completion(**asked) == alone
            served.until(lambda states: states == [])
            assert 'paceline_requests_total{reason="cancelled"} 1.0' in served.http.get("/metrics").text
