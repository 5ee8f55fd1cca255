"""How the proxy and its daemon begin and end: signals, a daemon that hangs or dies, one that is loading."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from paceline.clients.http import engine
from paceline.clients.http.engine import Engine, Health
from paceline.clients.http.refused import HttpRefused

from ...procfs import is_running, is_stopped
from .served import SECONDS, Served

SLOW = ("--fault", "slow:20", "--slots", "1", "--queue", "1")


def health(served: Served, wanted: int) -> dict[str, str]:
    deadline = time.monotonic() + SECONDS
    while (answer := served.http.get("/health")).status_code != wanted:
        assert time.monotonic() < deadline, answer.text
        time.sleep(0.01)
    body: dict[str, str] = answer.json()
    return body


def held(folder: Path) -> dict[str, str]:
    """An environment in which a daemon stops before it begins, until SIGCONT."""
    stop = "import os, signal, sys\nif 'paceline.daemon.main' in sys.orig_argv: os.kill(os.getpid(), signal.SIGSTOP)\n"
    (folder / "sitecustomize.py").write_text(stop)
    return {"PYTHONPATH": str(folder)}


def test_while_the_model_is_loaded(tmp_path: Path) -> None:
    with Served("--engine", "null", env=held(tmp_path), ready=False) as served:
        deadline = time.monotonic() + SECONDS
        while not is_stopped(served.daemon):
            assert time.monotonic() < deadline
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
    async def run() -> None:
        hangs = Engine(["--engine", "null"], lambda line: None)
        await hangs.open()
        assert await hangs.health() is Health.OK
        assert hangs.client.process
        monkeypatch.setattr(engine, "REPLY_SECONDS", 0.5)
        os.kill(hangs.client.process.pid, signal.SIGSTOP)
        assert await hangs.health() is Health.FAILED
        with pytest.raises(HttpRefused, match="does not answer"):
            await hangs.ask("STATS")
        os.kill(hangs.client.process.pid, signal.SIGCONT)
        monkeypatch.setattr(engine, "REPLY_SECONDS", SECONDS)
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
        while is_running(daemon):
            assert time.monotonic() < deadline
            time.sleep(0.02)


def test_a_second_signal_does_not_wait_for_what_is_live() -> None:
    with Served("--engine", "null", *SLOW) as served, ThreadPoolExecutor(1) as pool:
        live = pool.submit(served.post, "/v1/completions", prompt="Hi", max_tokens=3000)
        served.until(lambda states: states == ["decode"])
        began = time.monotonic()
        served.popen.send_signal(signal.SIGTERM)
        assert health(served, 503) == {"status": "closing"}
        time.sleep(0.3)
        assert served.popen.poll() is None
        served.popen.send_signal(signal.SIGTERM)
        assert served.popen.wait(SECONDS) == 0 and time.monotonic() - began < 20
        assert live.result().status_code == 503
    assert not [line for line in served.said if "Traceback" in line or "ERROR" in line]


def test_a_signal_more_waits_for_no_reader() -> None:
    with Served("--engine", "null") as served, socket.create_connection(("127.0.0.1", served.port)) as silent:
        silent.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n")
        health(served, 200)
        daemon, deadline = served.daemon, time.monotonic() + SECONDS
        served.popen.send_signal(signal.SIGTERM)
        while is_running(daemon):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.5)
        assert served.popen.poll() is None  # it waits for the rest of the body
        served.popen.send_signal(signal.SIGTERM)
        assert served.popen.wait(SECONDS) == 0
    assert not [line for line in served.said if "Traceback" in line or "ERROR" in line]


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


def test_one_that_cannot_be_started_again_at_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RESTART_SECONDS", 0.05)
    monkeypatch.setattr(engine, "MOST_SECONDS", 0.1)
    good, said = ["--engine", "null"], list[str]()

    async def run() -> None:
        args = good.copy()
        one = Engine(args, said.append, restart=True)
        await one.open()
        assert one.client.process
        args[:] = ["/nowhere/model.gguf"]
        os.kill(one.client.process.pid, signal.SIGKILL)
        async with asyncio.timeout(SECONDS):
            while len(said) < 4:
                await asyncio.sleep(0.01)
            assert await one.health() is Health.LOADING
            with pytest.raises(HttpRefused, match="being loaded"):
                await one.ask("STATS")
            args[:] = good
            while await one.health() is not Health.OK:
                await asyncio.sleep(0.01)
        await one.close()

    asyncio.run(run())
    again = [line for line in said if "cannot be started again, next try in 0.1 s: its frame stream has ended" in line]
    assert ": ready: " in said[0] and "exit code -9" in said[1] and said[2:-1] == again and ": ready: " in said[-1]


def test_at_sigterm_what_is_live_finishes_and_what_comes_is_refused() -> None:
    with Served("--engine", "null", *SLOW) as served, ThreadPoolExecutor(1) as pool:
        live = pool.submit(served.completion, prompt="Hi", max_tokens=150)
        served.until(lambda states: states == ["decode"])
        served.popen.send_signal(signal.SIGTERM)
        assert health(served, 503) == {"status": "closing"}
        refused = served.post("/v1/completions", prompt="Hi")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        assert len(live.result().split()) == 150
        assert served.popen.wait(30) == 0


def test_a_dead_daemon_is_red_and_every_answer_ends() -> None:
    with Served("--engine", "null", *SLOW) as served, ThreadPoolExecutor(1) as pool:
        live = pool.submit(served.post, "/v1/completions", prompt="Hi", max_tokens=2000)
        served.until(lambda states: states == ["decode"])
        os.kill(served.daemon, signal.SIGKILL)
        assert (live.result().status_code, live.result().json()["error"]["code"]) == (503, "engine_gone")
        health = served.http.get("/health")
        assert (health.status_code, health.json()) == (500, {"status": "failed"})
        assert served.post("/v1/completions", prompt="Hi").status_code == 503
        assert served.stop() == 0


def test_a_model_that_cannot_be_loaded_ends_it() -> None:
    command = [sys.executable, "-m", "paceline.clients.cli", "serve", "--port", "0", "/nowhere.gguf"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 70 and "/nowhere.gguf" in done.stderr
