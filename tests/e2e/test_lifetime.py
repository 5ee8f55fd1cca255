"""How a daemon ends: signals, a reader that stalls or leaves, a parent that dies, a stream that cannot be written."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from paceline.native.files.demo_model import DEMO
from paceline.protocol import CANCELLED, DONE, Frame, Message

from ..procfs import cpu_seconds, has_open, is_running, resident_bytes, signals_are_pending
from .process import Process, is_end, wait_until_asleep
from .test_conversation import expected

PROMPT = "ids:" + ",".join("7" * 500)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_a_prefill(signum: signal.Signals) -> None:
    with Process("--fault", "slow:200", "--prefill-tokens", "2", "--slots", "1") as daemon:
        daemon.send(f"REQ 1 START {PROMPT} 5", "REQ 2 START ids:1 5")
        daemon.reply(2)
        time.sleep(0.2)
        daemon.signal(signum)
        assert daemon.read_to_end(20.0) == 0
        assert [daemon.terminals(req_id) for req_id in (1, 2)] == [[CANCELLED], [CANCELLED]]
        assert daemon.end_of(1)["tokens"] == 0
        assert daemon.log() == ""


def test_a_signal_when_idle() -> None:
    with Process() as daemon:
        daemon.ready()
        daemon.signal(signal.SIGTERM)
        assert daemon.read_to_end(20.0) == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(signum: signal.Signals) -> None:
    with Process("--fault", "slow:60000") as daemon:
        daemon.send("REQ 1 START ids:1 5")
        daemon.reply(1)
        wait_until_asleep(daemon.popen.pid)  # in the step
        daemon.signal(signum)
        while signals_are_pending(daemon.popen.pid):
            time.sleep(0.01)
        time.sleep(0.2)
        assert daemon.popen.poll() is None
        daemon.signal(signum)
        assert daemon.popen.wait(20.0) == 128 + signum


def flood(daemon: Process) -> None:
    """More frames than the outbox may hold, of requests 1 to 16."""
    daemon.send(*(f"REQ {n} START ids:{n} 60000" for n in range(1, 17)))


FLOOD = ("--slots", "16", "--max-ctx", "70000")


def test_a_signal_while_the_reader_stalls() -> None:
    with Process(*FLOOD) as daemon:
        daemon.ready()
        flood(daemon)
        wait_until_asleep(daemon.popen.pid)
        daemon.signal(signal.SIGTERM)
        started = time.monotonic()
        assert daemon.popen.wait(10.0) == 74
        assert time.monotonic() - started > 4.5
        assert "the reader took nothing for 5 s" in daemon.log()


@pytest.mark.parametrize("seconds", [1.5, pytest.param(10.0, marks=pytest.mark.slow)])
def test_a_reader_that_stalls_pauses_the_decoding_and_loses_nothing(seconds: float) -> None:
    with Process(*FLOOD) as daemon:
        daemon.ready()
        flood(daemon)
        wait_until_asleep(daemon.popen.pid)
        before, spent = resident_bytes(daemon.popen.pid), cpu_seconds(daemon.popen.pid)
        time.sleep(seconds)
        daemon.send(*(f"CANCEL {n}" for n in range(2, 17)))
        time.sleep(0.3)
        assert cpu_seconds(daemon.popen.pid) - spent < 0.1
        assert resident_bytes(daemon.popen.pid) - before < 8 << 20
        assert resident_bytes(daemon.popen.pid) < 120 << 20
        assert daemon.finish(60.0) == 0
        assert daemon.terminals(1) == [DONE]
        assert daemon.tokens(1) == expected([1], 60000)
        for req_id in range(2, 17):
            tokens = daemon.tokens(req_id)
            assert daemon.terminals(req_id) == [CANCELLED]
            assert tokens == expected([req_id], len(tokens))
            assert 100 < len(tokens) < 20000


def test_replies_that_nobody_reads_stop_the_reading_of_lines() -> None:
    with Process() as daemon:
        daemon.ready()
        os.set_blocking(daemon.popen.stdin.fileno(), False)  # type: ignore[union-attr]
        line = b"HELP START\n" * 100
        written, quiet = 0, time.monotonic()
        while written < 64 << 20 and time.monotonic() - quiet < 1.0:
            count = daemon.popen.stdin.write(line)  # type: ignore[union-attr]
            if count is None:
                time.sleep(0.01)
                continue
            written += count
            line = line[count:] + line[:count]
            quiet = time.monotonic()
        assert written < 8 << 20
        assert resident_bytes(daemon.popen.pid) < 160 << 20
        os.set_blocking(daemon.popen.stdin.fileno(), True)  # type: ignore[union-attr]
        daemon.close_input()
        assert daemon.read_to_end(60.0) == 0
        numbers = [item.body["re"] for item in daemon.items if isinstance(item, Message) and "re" in item.body]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) == -(-written // len("HELP START\n"))


def test_a_stream_in_non_blocking_mode() -> None:
    """Some parents leave their pipes so."""
    ours, theirs = os.pipe()
    fcntl.fcntl(theirs, fcntl.F_SETFL, os.O_NONBLOCK)
    command = [sys.executable, "-m", "paceline.daemon.main", "--engine", "null", "--max-ctx", "30000"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs) as daemon:
        os.close(theirs)
        assert daemon.stdin is not None
        daemon.stdin.write(b"REQ 1 START ids:1 20000\n")
        daemon.stdin.close()
        time.sleep(0.7)
        data = b"".join(iter(lambda: os.read(ours, 1 << 16), b""))
        assert daemon.wait(20) == 0
    os.close(ours)
    assert len(data) > 20000 * 12


def test_a_reader_that_leaves_ends_the_daemon_quietly() -> None:
    with Process("--auto", "--max-ctx", "900000") as daemon:
        daemon.send("REQ 1 START ids:1 800000")
        daemon.read_until(lambda item: isinstance(item, Frame))
        assert daemon.popen.stdout is not None
        daemon.popen.stdout.close()
        assert daemon.popen.wait(20.0) == 0
        assert daemon.log() == ""


def test_a_reader_that_left_is_noticed_at_once() -> None:
    with Process() as daemon:
        daemon.ready()
        assert daemon.popen.stdout is not None
        daemon.popen.stdout.close()
        assert daemon.popen.wait(20.0) == 0
        assert daemon.log() == ""


@pytest.fixture
def starting(tmp_path: Path) -> Iterator[Process]:
    """A daemon that waits for its model, which somebody else is fetching."""
    lock_file = tmp_path / "paceline" / f"{Path(DEMO.member).name}.lock"
    lock_file.parent.mkdir()
    with lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with Process(engine="cpu", env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)}) as daemon:
            deadline = time.monotonic() + 20.0
            while not has_open(daemon.popen.pid, lock_file):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            yield daemon


@pytest.mark.parametrize("signum", [None, signal.SIGINT])
def test_a_reader_that_leaves_while_the_model_is_fetched(starting: Process, signum: signal.Signals | None) -> None:
    """Ctrl-C ends both, and is one signal all the same."""
    assert starting.popen.stdout is not None
    if signum:
        starting.signal(signum)
    starting.popen.stdout.close()
    assert starting.popen.wait(20.0) == 0
    assert starting.log() == ""


PARENT = """
import subprocess, sys, time
daemon = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
daemon.stdin.write(b"REQ 1 START ids:1 800000\\n")
daemon.stdin.flush()
daemon.stdout.read(4096)
print(daemon.pid, flush=True)
time.sleep(60)
"""


def test_a_parent_that_is_killed_takes_the_daemon_with_it() -> None:
    command = [sys.executable, "-m", "paceline.daemon.main", "--engine", "null", "--max-ctx", "900000"]
    with subprocess.Popen([sys.executable, "-c", PARENT, *command], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    deadline = time.monotonic() + 10.0
    while is_running(pid):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_full_device_is_an_output_error() -> None:
    with Path("/dev/full").open("wb") as full, Process(stdout=full) as daemon:
        assert daemon.popen.wait(10.0) == 74
        assert daemon.log() == "paceline: the stream cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("closed", "code", "words"),
    [
        (">&-", 74, "descriptor 1 cannot carry the stream: Bad file descriptor"),
        ("1</dev/null", 74, "descriptor 1 cannot carry the stream: not open for writing"),
        ("0>/dev/null", 0, "standard input cannot be read (Bad file descriptor): taken as its end"),
        ("<&-", 0, ""),
        ("<&- 2>&-", 0, ""),
    ],
)
def test_descriptors_that_are_closed(closed: str, code: int, words: str) -> None:
    command = f"exec {sys.executable} -m paceline.daemon.main --engine null {closed}"
    done = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=20, check=False)
    assert done.returncode == code
    assert words in done.stderr.decode()
    assert ("ready" in done.stdout.decode(errors="replace")) == (code == 0)


def test_a_model_is_loaded_where_nobody_reads_the_log(tiny_model: Callable[..., Path]) -> None:
    command = f"exec {sys.executable} -m paceline.daemon.main {tiny_model()} --max-ctx 64 <&- 2>&-"
    done = subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0 and b"ready" in done.stdout


def test_the_other_requests_go_on_while_one_ends() -> None:
    with Process("--auto") as daemon:
        daemon.send(*(f"REQ {n} START ids:{n} 2000 7" for n in (1, 2, 3)), "CANCEL 2")
        daemon.read_until(lambda item: is_end(item, 2))
        assert daemon.finish() == 0
        assert daemon.tokens(1) == expected([1], 2000) and daemon.tokens(3) == expected([3], 2000)
