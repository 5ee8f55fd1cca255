"""The log of `paceline serve` in a pipe that nobody reads, for a while or for ever."""

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from threading import Thread

import httpx
import pytest
from paceline.clients.http.log_pipe import MOST_LINES, LogPipe

from ...procfs import children
from .served import SECONDS

LOST = re.compile(rb"paceline serve: (\d+) lines of this log are lost, as nobody read it\n")


def pipe_of(size: int) -> tuple[int, int]:
    source, target = os.pipe()
    fcntl.fcntl(target, fcntl.F_SETPIPE_SZ, size)
    return source, target


def test_a_server_whose_log_nobody_reads_goes_on_and_ends() -> None:
    source, target = pipe_of(4096)
    command = [sys.executable, "-m", "paceline.clients.cli", "serve", "--port", "0", "--engine", "null"]
    with subprocess.Popen([*command, "--log", "json"], stderr=target) as server:
        os.close(target)
        said = b""
        while b": ready: " not in said:
            said += os.read(source, 4096)
        url = re.findall(rb"http://\S+", said)[0].decode()
        with httpx.Client(base_url=url, timeout=5) as http:
            for _ in range(30):  # each has sixteen lines of some 250 bytes: more than a pipe holds
                asked = {"prompt": "abc", "max_tokens": 1, "n": 16}
                assert http.post("/v1/completions", json=asked).status_code == 200
            assert http.get("/health").json() == {"status": "ok"}
        begun = time.monotonic()
        server.terminate()
        assert server.wait(SECONDS) == 0
        assert time.monotonic() - begun < 10
    os.close(source)


@pytest.mark.parametrize("opened", [os.pipe, os.openpty])
def test_a_daemon_is_started_again_also_if_the_log_has_no_reader_any_more(
    opened: Callable[[], tuple[int, int]],
) -> None:
    source, target = opened()
    command = [sys.executable, "-m", "paceline.clients.cli", "serve", "--port", "0", "--engine", "null", "--restart"]
    with subprocess.Popen(command, stderr=target) as server:
        os.close(target)
        said = b""
        while b": ready: " not in said:
            said += os.read(source, 4096)
        os.close(source)
        (daemon,) = children(server.pid)
        os.kill(daemon, signal.SIGKILL)
        with httpx.Client(base_url=re.findall(rb"http://\S+", said)[0].decode(), timeout=SECONDS) as http:
            deadline = time.monotonic() + 20
            while daemon in children(server.pid) or http.get("/health").status_code != 200:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        server.terminate()
        assert server.wait(SECONDS) == 0


def test_what_does_not_fit_is_counted_in_its_place() -> None:
    source, end = os.pipe()
    reading, target = pipe_of(4096)
    pipe = LogPipe(source, target)
    sent = MOST_LINES * 3
    with os.fdopen(end, "wb") as log:
        log.writelines(b"%07d\n" % n for n in range(sent))  # which ends, though nothing is read
    closing = Thread(target=lambda: (pipe.join(SECONDS), os.close(target)))
    closing.start()
    with os.fdopen(reading, "rb") as reader:
        said = reader.read()
    closing.join()
    lost = [int(number) for number in LOST.findall(said)]
    kept = [int(line) for line in LOST.sub(b"", said).split()]
    assert lost and kept == sorted(kept) and len(kept) + sum(lost) == sent
    before = LOST.split(said)[0].split()
    assert [int(line) for line in before] == list(range(len(before)))


def test_a_log_that_is_read_is_whole_to_its_last_line() -> None:
    program = """
import os
from paceline.clients.http.log_pipe import log_pipe, say
with log_pipe():
    for n in range(3000):
        say(n)
    os.write(2, b"and half a")
say(" line")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=SECONDS, text=True)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "".join(f"{n}\n" for n in range(3000)) + "and half a line\n"
