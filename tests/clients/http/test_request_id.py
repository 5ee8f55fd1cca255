"""x-request-id, and request-id: the request's own on each response, or one of ours."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from paceline.clients.http.app import Limits, Proxy
from paceline.clients.http.engine import Engine
from paceline.clients.http.request_id import LONGEST, request_id

from .served import Served

OURS = r"req_[0-9a-f]{24}"
HELLO = [{"role": "user", "content": "Hi"}]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--engine", "null", "--max-body", "2000") as served:
        yield served


@pytest.mark.parametrize(
    ("method", "path", "body", "more", "status"),
    [
        ("POST", "/v1/completions", {"prompt": "Hi", "max_tokens": 2}, {}, 200),
        ("POST", "/v1/completions", {"prompt": "Hi", "max_tokens": 2, "stream": True}, {}, 200),
        ("POST", "/v1/messages", {"messages": HELLO, "max_tokens": 2}, {}, 200),
        ("POST", "/v1/messages", {"messages": HELLO}, {}, 400),
        ("POST", "/v1/completions", {"prompt": "Hi", "max_tokens": 5000}, {}, 400),
        ("POST", "/v1/completions", {"prompt": "x" * 3000}, {}, 413),
        ("POST", "/v1/completions", {"prompt": "Hi"}, {"origin": "https://example.org"}, 403),
        ("GET", "/v1/completions", None, {}, 405),
        ("GET", "/nowhere", None, {}, 404),
        ("GET", "/health", None, {}, 200),
    ],
)
def test_it_is_on_each_response(
    served: Served, method: str, path: str, body: dict[str, Any] | None, more: dict[str, str], status: int
) -> None:
    own = served.http.request(method, path, json=body, headers={"X-Request-ID": "run 7/a"} | more)
    assert (own.status_code, own.headers["x-request-id"], own.headers["request-id"]) == (status, "run 7/a", "run 7/a")
    answers = [served.http.request(method, path, json=body, headers=more).headers for _ in range(2)]
    made = [headers["x-request-id"] for headers in answers]
    assert made == [headers["request-id"] for headers in answers]
    assert all(re.fullmatch(OURS, one) for one in made) and made[0] != made[1]


def test_it_is_told_to_whoever_has_no_key() -> None:
    with Served("--engine", "null", "--api-key", "geheim") as served:
        refused = served.http.get("/slots", headers={"x-request-id": "mine"})
        assert (refused.status_code, refused.headers["x-request-id"]) == (401, "mine")


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (b"a", True),
        (b"x" * LONGEST, True),
        (b"!~ }", True),
        (b" a ", True),
        (b"", False),
        (b" ", False),
        (b"x" * (LONGEST + 1), False),
        ("é".encode(), False),
        (b"a\tb", False),
        (b"a\x7f", False),
        (b"a\x00", False),
    ],
)
def test_what_is_taken_for_one(given: bytes, taken: bool) -> None:
    found = request_id([(b"host", b"x"), (b"x-request-id", given), (b"x-request-id", b"second")])
    assert found == given.strip() if taken else re.fullmatch(OURS, found.decode())
    assert re.fullmatch(OURS, request_id([]).decode())


def test_it_is_on_what_is_our_fault_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise KeyError("planted")

    async def run() -> None:
        monkeypatch.setattr(Engine, "health", broken)
        app = Proxy(Engine([], lambda line: None), Limits()).app()
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            answer = await http.get("/health", headers={"x-request-id": "mine"})
        assert (answer.status_code, answer.headers["x-request-id"]) == (500, "mine")

    asyncio.run(run())


def test_the_answers_names_are_those_of_the_log(served: Served) -> None:
    for stream in (False, True):
        answer = served.post("/v1/completions", prompt="Hi", max_tokens=3, n=2, stream=stream)
        assert answer.status_code == 200
        for number in answer.headers["x-paceline-req-id"].split(","):
            assert " tokens=3 " in served.line(f"^req_id={number} ")
    assert "x-paceline-req-id" not in served.post("/v1/completions", prompt="").headers
    with Served("--engine", "null", "--fault", "row:0@5") as failing:
        failed = failing.post("/v1/completions", prompt="Hi", max_tokens=9)
        assert failed.status_code == 500
        assert failing.line(f"^req_id={failed.headers['x-paceline-req-id']} ").endswith("finish_reason=failed")
