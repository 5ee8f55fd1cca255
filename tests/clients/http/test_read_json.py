"""Bodies on their way in: late ones, large ones, and such as would keep everybody waiting."""

import asyncio
import json
import time
from threading import Event
from typing import Any

import pytest
from paceline.clients.http import guard
from paceline.clients.http.guard import read_json
from paceline.clients.http.refused import HttpRefused
from starlette.requests import Request


def request(receive: Any, *headers: tuple[bytes, bytes]) -> Request:
    return Request({"type": "http", "method": "POST", "path": "/", "headers": list(headers)}, receive)


def sends(body: bytes) -> Any:
    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    return receive


def test_a_body_that_does_not_come_is_408(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)
    pieces = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive() -> Any:
        return pieces.pop() if pieces else await asyncio.sleep(60)

    with pytest.raises(HttpRefused) as refused:
        asyncio.run(read_json(request(receive), 1000))
    assert (refused.value.status, refused.value.code) == (408, "timeout")


ONE = b'{"role":"user","content":""}'


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b",".join([ONE] * 280_000) + b"]",
        b"[" + b",".join([b"[]"] * 2_700_000) + b"]",
        b"[" + b",".join([b'""'] * 2_700_000) + b"]",
        b"[" + b",".join([b"12"] * 2_700_000) + b"]",
        b'["\\\\",' + b",".join([b"{}"] * 2_700_000) + b"]",
    ],
    ids=["messages", "lists", "strings", "numbers", "objects"],
)
def test_nobody_waits_for_a_body_of_millions_of_parts(body: bytes) -> None:
    """It is refused before it is taken apart."""

    async def run() -> float:
        reading = asyncio.create_task(read_json(request(sends(body)), 1 << 24))
        longest = 0.0
        while not reading.done():
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - began)
        with pytest.raises(HttpRefused, match="too many parts") as refused:
            reading.result()
        assert (refused.value.status, refused.value.code) == (400, "too_many_parts")
        return longest

    # Whoever holds up the others does so each time; the machine may do it once.
    assert any(asyncio.run(run()) < 0.2 for _ in range(5))


@pytest.mark.parametrize(
    "body",
    [
        {"content": '[{"a\\",' * 700_000},
        {"content": "\\" * 3_000_001, "x": [{}]},
        {"messages": [{"role": "user", "content": "Hi, [you]"}] * 26_000},
        {"tokens": [5] * (1 << 20)},
        {"few": ["\\", '"', ""]},
    ],
    ids=["text", "backslashes", "messages", "ids", "few"],
)
def test_what_stands_in_texts_is_no_part_of_a_body(body: Any) -> None:
    for encoding in ("utf-8", "utf-16"):
        data = json.dumps(body).encode(encoding)
        assert asyncio.run(read_json(request(sends(data)), 1 << 25)) == body


def test_a_long_body_is_read_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Event()

    def slowly(body: Any) -> int:
        assert turns.wait(60)
        return len(body)

    async def run() -> None:
        reading = asyncio.create_task(read_json(request(sends(b" " * guard.SMALL + b"[]")), 1 << 20, slowly))
        for _ in range(10):
            await asyncio.sleep(0.01)
            assert not reading.done()
        turns.set()
        assert await reading == 0

    asyncio.run(run())


def test_a_body_that_is_announced_as_too_large_is_not_read() -> None:
    async def receive() -> Any:
        raise AssertionError("expected that it is not read")

    for length in (b"1001", b"9" * 5000):
        with pytest.raises(HttpRefused) as refused:
            asyncio.run(read_json(request(receive, (b"content-length", length)), 1000))
        assert refused.value.status == 413
