"""Who may call: keys, web pages, other machines."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from paceline.clients.http.flags import daemon_words

from .served import SECONDS, Served

PAGE = "https://example.org"


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--engine", "null") as served:
        yield served


def test_this_machine_alone_is_listened_to(served: Served) -> None:
    assert served.url.startswith("http://127.0.0.1:")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", served.port))
    with Served("--engine", "null", "--host", "0.0.0.0") as wide:
        socket.create_connection(("127.0.0.2", wide.port)).close()


def test_an_empty_host_is_usage_and_not_every_machine() -> None:
    command = [sys.executable, "-m", "paceline.clients.cli", "serve", "--engine", "null", "--port", "0"]
    for host in ("", " "):
        done = subprocess.run([*command, "--host", host], capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 2 and "--host: it is empty, expected an address" in done.stderr


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
        local = {"access-control-request-private-network": "true"}  # of a browser whose page is not on this machine
        preflight = served.http.options("/v1/completions", headers=asks | local)
        assert preflight.headers["access-control-allow-private-network"] == "true"
        answer = served.http.post("/tokenize", json={"content": "a"}, headers={"origin": PAGE})
        shown = set(answer.headers["access-control-expose-headers"].split(", "))
        assert {"x-request-id", "retry-after", "x-should-retry"} <= shown
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
            for headers in (
                [(b"x-api-key", right)],
                [(b"authorization", b"bearer " + right)],
                [(b"x-api-key", right), (b"authorization", b"Bearer wrong")],
                [(b"x-api-key", b"wrong"), (b"authorization", b"Bearer " + right)],
            ):
                assert served.http.request(method, path, headers=headers).status_code in (200, 400)
        assert served.http.get("/health").status_code == 200
        error = served.http.post("/v1/messages", json={}).json()
        assert (error["type"], error["error"]["type"]) == ("error", "authentication_error")


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
