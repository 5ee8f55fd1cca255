"""What the proxy bears, and what it says when it has had enough."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from typing import Any

import httpx
import pytest
from paceline.clients.chat import ChatTemplate
from paceline.clients.detokenizer import Detokenizer
from paceline.clients.http.app import Limits, Proxy
from paceline.clients.http.engine import Engine
from paceline.clients.http.refused import HttpRefused
from paceline.clients.http.requests.asked import Chat, Text
from paceline.clients.http.texts import Texts

from .served import SECONDS, Served

HELLO = [{"role": "user", "content": "x"}]

SLOW = ("--fault", "slow:20", "--slots", "1", "--queue", "1")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--engine", "null") as served:
        yield served


def test_more_connections_than_it_bears() -> None:
    """Those that idle do not count."""
    words = ("--engine", "null", "--fault", "slow:20", "--max-connections", "3")
    with Served(*words) as served, ExitStack() as others:
        for _ in range(10):
            others.enter_context(socket.create_connection(("127.0.0.1", served.port)))
        asked = {"prompt": "Hi", "max_tokens": 3000, "stream": True}
        for _ in range(3):
            assert served.post("/v1/completions", prompt="Hi").status_code == 200
            client = others.enter_context(httpx.Client(timeout=SECONDS))
            others.enter_context(client.stream("POST", f"{served.url}/v1/completions", json=asked))
        refused = served.post("/v1/completions", prompt="Hi")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "too_many_connections")
        assert refused.headers["retry-after"] == "1"
        assert served.http.get("/health").status_code == 200
        others.close()
        deadline = time.monotonic() + SECONDS
        while served.post("/v1/completions", prompt="Hi").status_code != 200:
            assert time.monotonic() < deadline


def test_a_prompt_that_is_too_long_is_refused_by_the_name_of_its_field(served: Served) -> None:
    hello = [{"role": "user", "content": "x" * 5000}]
    for path, body, param in (
        ("/v1/completions", {"prompt": [1] * 4096}, "prompt"),
        ("/v1/completions", {"prompt": ["x", "x" * 4096]}, "prompt"),
        ("/v1/chat/completions", {"messages": hello}, "messages"),
    ):
        error = served.post(path, **body).json()["error"]
        assert (error["param"], error["code"]) == (param, "context_length_exceeded")
    assert served.post("/v1/messages", messages=hello, max_tokens=5).status_code == 400
    for field in ("max_tokens", "max_completion_tokens"):
        short = [{"role": "user", "content": "x"}]
        error = served.post("/v1/chat/completions", messages=short, **{field: 5000}).json()["error"]
        assert (error["param"], error["code"]) == (field, "context_length_exceeded")
    empty = served.post("/v1/completions", prompt="").json()["error"]
    assert (empty["param"], empty["code"]) == ("prompt", "invalid_value")
    assert served.post("/v1/completions", prompt=[1] * 4095, max_tokens=1).status_code == 200
    assert served.states() == []


def test_a_prompt_that_cannot_fit_is_not_cut_into_tokens() -> None:
    class Untouched:
        longest = 8

        def encode(self, text: str, special: bool = True) -> list[int]:
            assert len(text) <= 80
            return [1]

        def encode_rendered(self, text: str) -> list[int]:
            return self.encode(text)

        def detokenizer(self) -> Detokenizer:
            return Detokenizer([b"", b"x"])

    texts = Texts(Untouched(), ChatTemplate("{{ messages[0].content }}"), 2, 10)
    assert texts.read(Text("x" * 80)).ids == [1]
    for prompt in (Text("x" * 81), Chat(({"role": "user", "content": "x" * 81},))):
        with pytest.raises(HttpRefused, match="length is 10 tokens, and a prompt of at least 11 leaves") as caught:
            texts.read(prompt)
        assert (caught.value.param, caught.value.code) == (prompt.param, "context_length_exceeded")
    with pytest.raises(AssertionError):  # it is cut into tokens all the same where only their number is asked for
        texts.read(Text("x" * 81), bounded=False)


def test_a_request_for_too_much_is_told_in_the_words_that_agents_look_for(served: Served) -> None:
    long = [{"role": "user", "content": "x" * 4200}]
    longer = [{"role": "user", "content": "x" * 5000}]
    for messages, most, expected in (
        (long, 5, r"prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)"),
        (longer, 5, r"prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)"),
        (HELLO, 5000, r"input length and `max_tokens` exceed context limit: (\d+) \+ (\d+) > (\d+)"),
    ):
        error = served.post("/v1/messages", messages=messages, max_tokens=most).json()["error"]
        found = re.search(expected, error["message"])
        assert found and error["type"] == "invalid_request_error", error
        *asked, room = map(int, found.groups())
        assert sum(asked) > room == 4096
        for path, name in (("/v1/chat/completions", "messages"), ("/v1/responses", "input")):
            limit = "max_output_tokens" if name == "input" else "max_tokens"
            error = served.post(path, **{name: messages, limit: most}).json()["error"]
            assert "this model's maximum context length is 4096 tokens" in error["message"]
            assert (error["code"], error["param"]) == ("context_length_exceeded", limit if most > 5 else name)


def test_what_is_far_too_long_is_counted(served: Served) -> None:
    long = [{"role": "user", "content": "x" * 100_000}]
    assert served.post("/v1/messages/count_tokens", messages=long).json()["input_tokens"] > 100_000


def test_texts_and_ids_of_the_small_routes_have_a_bound() -> None:
    with Served("--engine", "null", "--max-ctx", "1048576", "--max-body", "99999999") as served:
        for path, field, one in (("/tokenize", "content", "x"), ("/detokenize", "tokens", [1])):
            refused = served.post(path, **{field: one * ((1 << 20) + 1)})
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, field)
            assert "expected at most 1048576" in refused.json()["error"]["message"]
        assert served.post("/tokenize", content="x" * (1 << 20)).json()["count"] == 1 << 20
        assert len(served.post("/detokenize", tokens=[1] * (1 << 20)).json()["content"]) == 2 << 20
        for ids in ([True], [1.0], [-1], [1 << 31], {}, "1", [[1]], [None]):
            assert served.post("/detokenize", tokens=ids).json()["error"]["code"] == "invalid_type"


def test_nobody_waits_while_a_text_is_cut_into_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = Event()

    def late(result: Any) -> Any:
        assert answered.wait(10), "expected that others are answered meanwhile"
        return result

    async def run() -> None:
        engine = Engine(["--engine", "null"], lambda line: None)
        await engine.open()
        monkeypatch.setattr(Texts, "encode", lambda *_: late([1]))
        monkeypatch.setattr(Texts, "decode", lambda *_: late("x"))
        transport = httpx.ASGITransport(Proxy(engine, Limits()).app())
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            for path, body in (("/tokenize", {"content": "x"}), ("/detokenize", {"tokens": [1]})):
                answered.clear()
                long = asyncio.create_task(http.post(path, json=body))
                await asyncio.sleep(0.05)
                assert (await http.get("/health")).status_code == 200
                answered.set()
                assert (await long).status_code == 200
        await engine.close()

    asyncio.run(run())


def test_a_daemon_that_is_stuck_is_not_waited_for() -> None:
    with Served("--engine", "null", "--max-seconds", "1") as served:
        os.kill(served.daemon, signal.SIGSTOP)
        try:
            late = served.post("/v1/completions", prompt="Hi", max_tokens=3)
        finally:
            os.kill(served.daemon, signal.SIGCONT)
        assert (late.status_code, late.json()["error"]["code"]) == (504, "timeout")
        assert late.headers["x-should-retry"] == "false"
        assert len(served.completion(prompt="Hi", max_tokens=5).split()) == 5


def test_an_answer_that_takes_too_long() -> None:
    with Served("--engine", "null", *SLOW, "--max-seconds", "1.5") as served, ThreadPoolExecutor(2) as pool:
        asked = {"prompt": "Hi", "max_tokens": 2000}
        for late in [pool.submit(served.post, "/v1/completions", **asked) for _ in range(2)]:  # one of them is queued
            assert (late.result().status_code, late.result().json()["error"]["code"]) == (504, "timeout")
        lines = served.post("/v1/completions", **asked, stream=True).text.split("\n\n")
        assert '"code":"timeout"' in lines[-2] and lines[-1] == ""
        lines = served.post(
            "/v1/messages", messages=[{"role": "user", "content": "x"}], max_tokens=900, stream=True
        ).text
        assert "event: error" in lines and "timeout_error" in lines
        assert served.states() == []
        assert len(served.completion(prompt="Hi", max_tokens=5).split()) == 5


def test_an_answer_of_unsaid_length() -> None:
    hello = [{"role": "user", "content": "Hi"}]
    with Served("--engine", "null", "--default-max-tokens", "30", "--max-ctx", "64") as served:
        for path, body, tokens in (
            ("/v1/chat/completions", {"messages": hello}, 30),
            ("/v1/chat/completions", {"messages": hello, "max_tokens": 40}, 40),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 49}]}, 14),  # all that is left
            ("/v1/completions", {"prompt": "Hi"}, 16),  # OpenAI's own
        ):
            assert served.post(path, **body).json()["usage"]["completion_tokens"] == tokens


@pytest.mark.parametrize(
    ("more", "states"), [((), ["decode", "queued"]), (("--default-max-tokens", "100"), ["decode", "decode"])]
)
def test_chats_of_unsaid_length_share_a_small_cache_if_they_have_a_bound(
    more: tuple[str, ...], states: list[str]
) -> None:
    """The pages of all that an answer may become are its own from the beginning."""
    small = ("--engine", "null", "--fault", "slow:20", "--slots", "2", "--cache-bytes", str(4 * 512))
    asked = {"messages": [{"role": "user", "content": "Hi"}]}
    with Served(*small, *more) as served, ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(served.post, "/v1/chat/completions", **asked)
        served.until(lambda found: found == states)
        served.interrupt()


def test_a_port_that_is_taken(served: Served) -> None:
    command = [
        sys.executable,
        "-m",
        "paceline.clients.cli",
        "serve",
        "--engine",
        "null",
        "--port",
        str(served.port),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 3 and "address already in use" in done.stderr


@pytest.mark.parametrize(
    "flag",
    [
        "--port=70000",
        "--port=x",
        "--max-body=0",
        "--max-connections=x",
        "--max-seconds=-1",
        "--max-seconds=0",
        "--cors=example.org",
        "--cors=https://example.org/",
        "--cors=https://Example.org",
        "--cors=https://example.org:443",
        "--model-name=",
        "--default-max-tokens=0",
    ],
)
def test_flags_that_are_wrong_are_usage(flag: str) -> None:
    command = [sys.executable, "-m", "paceline.clients.cli", "serve", flag]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 2 and flag.partition("=")[0] in done.stderr


def test_headers_that_are_no_http(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)) as wild:
        wild.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert wild.recv(100).startswith(b"HTTP/1.1 400")
    assert httpx.get(f"{served.url}/health").status_code == 200
