"""What the proxy bears, and what it says when it has had enough."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
from paceline.clients.chat import ChatTemplate
from paceline.clients.detokenizer import Detokenizer
from paceline.clients.http import engine
from paceline.clients.http.app import Limits, Proxy
from paceline.clients.http.asked import Chat, Text
from paceline.clients.http.engine import Engine, Health
from paceline.clients.http.flags import daemon_words
from paceline.clients.http.refused import HttpRefused
from paceline.clients.http.texts import Texts

from .served import SECONDS, Served

SLOW = ("--fault", "slow:20", "--slots", "1", "--queue", "1")
PAGE = "https://example.org"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--engine", "null") as served:
        yield served


def port_of(served: Served) -> int:
    return int(served.url.rpartition(":")[2])


def health(served: Served, wanted: int) -> dict[str, str]:
    deadline = time.monotonic() + SECONDS
    while (answer := served.http.get("/health")).status_code != wanted:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.01)
    body: dict[str, str] = answer.json()
    return body


def test_this_machine_alone_is_listened_to(served: Served) -> None:
    assert served.url.startswith("http://127.0.0.1:")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port_of(served)))
    with Served("--engine", "null", "--host", "0.0.0.0") as wide:
        socket.create_connection(("127.0.0.2", port_of(wide))).close()


def test_no_web_page_may_call(served: Served) -> None:
    for origin in (PAGE, "null", served.url):
        refused = served.http.post("/v1/completions", json={"prompt": "Hi"}, headers={"origin": origin})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin_not_allowed")
        assert "access-control-allow-origin" not in refused.headers
    asks = {"origin": PAGE, "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in served.http.options("/v1/completions", headers=asks).headers


def test_the_pages_that_cors_names_may_call() -> None:
    with Served("--engine", "null", "--cors", PAGE, "--cors", "http://localhost:3000") as served:
        asks = {"origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": "x-api-key"}
        preflight = served.http.options("/v1/completions", headers=asks)
        assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, PAGE)
        answer = served.http.post("/tokenize", json={"content": "a"}, headers={"origin": PAGE})
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, PAGE)
        assert served.http.post("/tokenize", json={"content": "a"}, headers={"origin": PAGE + "x"}).status_code == 403
        assert served.post("/tokenize", content="a").status_code == 200


def test_wrong_keys_are_refused_on_every_route_but_health() -> None:
    with Served("--engine", "null", "--api-key", "schlüssel") as served:
        routes = [("GET", path) for path in ("/v1/models", "/v1/models/null", "/slots", "/metrics")]
        routes += [("POST", f"/v1/{path}") for path in ("chat/completions", "completions", "messages")]
        routes += [("POST", "/tokenize"), ("POST", "/detokenize")]
        right = "schlüssel".encode()
        for method, path in routes:
            for key in (b"", b"schl", right + b"x", "schlüssel".encode("latin-1"), b"\xff"):
                for headers in (
                    [(b"x-api-key", key)],
                    [(b"authorization", b"Bearer x" + key)],
                    [(b"authorization", key)],
                ):
                    assert served.http.request(method, path, headers=headers).status_code == 401
            for headers in ([(b"x-api-key", right)], [(b"authorization", b"bearer " + right)]):
                assert served.http.request(method, path, headers=headers).status_code in (200, 400)
        assert served.http.get("/health").status_code == 200
        error = served.http.post("/v1/messages", json={}).json()
        assert (error["type"], error["error"]["type"]) == ("error", "authentication_error")


def test_more_connections_than_it_bears() -> None:
    with Served("--engine", "null", "--max-connections", "3") as served, ExitStack() as others:
        for _ in range(3):
            others.enter_context(socket.create_connection(("127.0.0.1", port_of(served))))
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

        def detokenizer(self) -> Detokenizer:
            return Detokenizer([b"", b"x"])

    texts = Texts(Untouched(), ChatTemplate("{{ messages[0].content }}"), 2, 10)
    assert texts.read(Text("x" * 80)).ids == [1]
    for prompt in (Text("x" * 81), Chat(({"role": "user", "content": "x" * 81},))):
        with pytest.raises(HttpRefused, match="is longer than 10 tokens, the context, can be") as caught:
            texts.read(prompt)
        assert (caught.value.param, caught.value.code) == (prompt.param, "context_length_exceeded")


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
    async def run() -> None:
        engine = Engine(["--engine", "null"], lambda line: None)
        await engine.open()
        monkeypatch.setattr(Texts, "encode", lambda *_: [time.sleep(0.5)] and [1])
        monkeypatch.setattr(Texts, "decode", lambda *_: str(time.sleep(0.5)))
        transport = httpx.ASGITransport(Proxy(engine, Limits()).app())
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            for path, body in (("/tokenize", {"content": "x"}), ("/detokenize", {"tokens": [1]})):
                long = asyncio.create_task(http.post(path, json=body))
                await asyncio.sleep(0.05)
                began = time.monotonic()
                assert (await http.get("/health")).status_code == 200 and time.monotonic() - began < 0.4
                assert (await long).status_code == 200
        await engine.close()

    asyncio.run(run())


def test_an_answer_that_takes_too_long() -> None:
    with Served("--engine", "null", *SLOW, "--max-seconds", "0.5") as served, ThreadPoolExecutor(2) as pool:
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


def test_while_the_model_is_loaded() -> None:
    with Served("--engine", "null", ready=False) as served:
        os.kill(served.daemon, signal.SIGSTOP)
        health_then = served.http.get("/health")
        assert (health_then.status_code, health_then.json()) == (503, {"status": "loading"})
        for path in ("/v1/completions", "/v1/messages", "/tokenize"):
            refused = served.post(
                path, prompt="Hi", content="Hi", max_tokens=5, messages=[{"role": "user", "content": "x"}]
            )
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert served.post("/v1/completions", prompt="Hi").json()["error"]["code"] == "loading"
        assert served.http.get("/slots").status_code == served.http.get("/v1/models").status_code == 503
        assert served.http.get("/metrics").status_code == 200
        os.kill(served.daemon, signal.SIGCONT)
        assert health(served, 200) == {"status": "ok"}
        assert served.completion(prompt="Hi", max_tokens=2)


def test_one_that_hangs_is_as_red_as_one_that_died(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "REPLY_SECONDS", 0.5)

    async def run() -> None:
        hangs = Engine(["--engine", "null"], lambda line: None)
        await hangs.open()
        assert await hangs.health() is Health.OK
        assert hangs.client.process
        os.kill(hangs.client.process.pid, signal.SIGSTOP)
        assert await hangs.health() is Health.FAILED
        with pytest.raises(HttpRefused, match="does not answer"):
            await hangs.ask("STATS")
        os.kill(hangs.client.process.pid, signal.SIGCONT)
        assert await hangs.health() is Health.OK
        await hangs.close()
        assert await hangs.health() is Health.CLOSING

    asyncio.run(run())


def test_a_signal_while_the_model_is_loaded() -> None:
    with Served("--engine", "null", ready=False) as served:
        daemon = served.daemon
        os.kill(daemon, signal.SIGSTOP)
        served.popen.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        with suppress(ProcessLookupError):
            os.kill(daemon, signal.SIGCONT)
        assert served.popen.wait(SECONDS) == 0


def test_at_ctrl_c_what_is_live_is_cancelled_and_told_why() -> None:
    with Served("--engine", "null", *SLOW) as served, ThreadPoolExecutor(2) as pool:
        asked = {"prompt": "Hi", "max_tokens": 3000}
        live = [pool.submit(served.post, "/v1/completions", **asked, **more) for more in ({}, {"stream": True})]
        served.until(lambda states: states == ["decode", "queued"])
        served.interrupt()
        assert served.popen.wait(SECONDS) == 0
        for one in live:
            assert '"code":"shutting_down"' in one.result().text
        assert served.line("finish_reason=cancelled", 2)


def test_ctrl_c_while_the_daemon_begins_is_no_traceback() -> None:
    for wait in (0.0, 0.2, 0.5):
        with Served("--engine", "null", ready=False) as served:
            assert served.daemon
            time.sleep(wait)
            served.interrupt()
            assert served.popen.wait(SECONDS) == 0
        assert not [line for line in served.said if "Traceback" in line or "Interrupt" in line]


def test_the_daemon_ends_with_a_server_that_is_killed() -> None:
    with Served("--engine", "null") as served:
        daemon = served.daemon
        served.popen.kill()
        deadline = time.monotonic() + SECONDS
        while Path(f"/proc/{daemon}").exists() and "Z" not in Path(f"/proc/{daemon}/stat").read_text().split()[2]:
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_second_signal_does_not_wait_for_what_is_live() -> None:
    with Served("--engine", "null", *SLOW) as served, ThreadPoolExecutor(1) as pool:
        live = pool.submit(served.post, "/v1/completions", prompt="Hi", max_tokens=3000)
        served.until(lambda states: states == ["decode"])
        began = time.monotonic()
        served.popen.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        assert served.popen.poll() is None
        served.popen.send_signal(signal.SIGTERM)
        assert served.popen.wait(SECONDS) == 0 and time.monotonic() - began < 20
        assert isinstance(live.exception(), httpx.HTTPError) or live.result().status_code == 503


def test_a_daemon_that_died_is_started_again_if_that_was_asked_for() -> None:
    with Served("--engine", "null", "--fault", "slow:20", "--restart") as served, ThreadPoolExecutor(4) as pool:
        for _ in range(2):
            live = [pool.submit(served.post, "/v1/completions", prompt="Hi", max_tokens=2000) for _ in range(4)]
            served.until(lambda states: states == ["decode"] * 4)
            os.kill(served.daemon, signal.SIGKILL)
            for one in live:
                assert (one.result().status_code, one.result().json()["error"]["code"]) == (503, "engine_gone")
            assert served.http.get("/health").status_code in (500, 503)
            assert health(served, 200) == {"status": "ok"}
            assert len(served.completion(prompt="Hi", max_tokens=3).split()) == 3
        assert served.stop() == 0


def test_a_port_that_is_taken(served: Served) -> None:
    command = [
        sys.executable,
        "-m",
        "paceline.clients.cli",
        "serve",
        "--engine",
        "null",
        "--port",
        str(port_of(served)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 3 and "address already in use" in done.stderr


@pytest.mark.parametrize(
    "flag", ["--port=70000", "--port=x", "--max-body=0", "--max-connections=x", "--max-seconds=-1", "--model-name="]
)
def test_flags_that_are_wrong_are_usage(flag: str) -> None:
    command = [sys.executable, "-m", "paceline.clients.cli", "serve", flag]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 2 and flag.partition("=")[0] in done.stderr


def test_an_empty_key_is_usage_and_not_an_open_door() -> None:
    command = [sys.executable, "-m", "paceline.clients.cli", "serve", "--engine", "null", "--port", "0"]
    for words, key in ((["--api-key", ""], None), (["--api-key= "], None), ([], ""), ([], "\n")):
        environment = os.environ | ({} if key is None else {"PACELINE_API_KEY": key})
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=SECONDS, env=environment)
        assert done.returncode == 2 and "--api-key: it is empty, expected a key" in done.stderr


def test_blanks_around_a_key_are_no_part_of_it() -> None:
    with Served("--engine", "null", "--api-key", " voilà\n") as served:  # its last byte is a blank in Latin-1
        for key, status in ((b"voil\xc3\xa0", 200), (b"voil\xc3", 401)):
            assert served.http.get("/v1/models", headers=[(b"x-api-key", key)]).status_code == status


def test_the_key_is_no_word_of_the_daemon() -> None:
    words = daemon_words(["M.gguf", "--api-key", "geheim", "--slots", "2", "--restart", "--cors", "*"])
    assert words[-3:] == ["M.gguf", "--slots", "2"] and "geheim" not in words


def test_headers_that_are_no_http(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", port_of(served))) as wild:
        wild.sendall(b"\x16\x03\x01 nonsense\r\n\r\n")
        assert wild.recv(100).startswith(b"HTTP/1.1 400")
    assert httpx.get(f"{served.url}/health").status_code == 200
