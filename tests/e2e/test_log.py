"""The log on stderr through a real process."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import sys

import pytest

from .process import Process, is_end

LINES = ("REQ 1 START ids:31001,31002 5", "REQ 2 START ids:31003 50 2", "NONSENSE")


def served(*flags: str) -> str:
    with Process(*flags) as daemon:
        daemon.send(*LINES)
        daemon.reply(3)
        assert daemon.finish() == 0
        return daemon.log()


def test_json() -> None:
    log = served("--log", "json")
    start, *requests, stop = [json.loads(line) for line in log.splitlines()]
    assert (start["event"], start["model"], start["slots"]) == ("start", "null", 4)
    assert (stop["event"], stop["code"]) == ("stop", 0)
    found = {line["req_id"]: line for line in requests}
    assert len(requests) == 2 and {line["event"] for line in requests} == {"request"}
    assert (found[1]["reason"], found[1]["prompt_tokens"], found[1]["tokens"]) == ("length", 2, 5)
    assert found[2]["reason"] == "cancelled"
    for line in requests:
        assert line["latency_ms"] >= line["ttft_ms"] >= line["queue_ms"] >= 0
    assert start["time"] <= requests[0]["time"] <= stop["time"]
    assert "3100" not in log


def test_text() -> None:
    lines = served("--log", "text").splitlines()
    assert len(lines) == 2
    assert any(line.startswith("req_id=1 ") and line.endswith("finish_reason=length") for line in lines)


@pytest.mark.parametrize("flags", [(), ("--log", "none")])
def test_none_is_what_a_parent_gets_that_never_asked(flags: tuple[str, ...]) -> None:
    assert served(*flags) == ""


@pytest.mark.parametrize(
    ("flags", "lines", "sign"),
    [
        (("--stream", "bare"), ["STATS"] * 200, b'"re":'),
        (("--log", "text"), [f"REQ {number} START ids:1 1" for number in range(1, 1001)], b"req_id="),
    ],
)
def test_a_stderr_that_does_not_block_loses_nothing(flags: tuple[str, ...], lines: list[str], sign: bytes) -> None:
    """A pipe with room for a page, which nobody reads for a while."""
    ours, theirs = os.pipe()
    fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(theirs, False)
    command = [sys.executable, "-m", "paceline.daemon.main", "--engine", "null", "--queue", "1000", *flags]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=theirs) as daemon:
        os.close(theirs)
        assert daemon.stdin is not None
        daemon.stdin.write("".join(f"{line}\n" for line in lines).encode())
        daemon.stdin.close()
        with pytest.raises(subprocess.TimeoutExpired):
            daemon.wait(timeout=1)
        with os.fdopen(ours, "rb") as log:
            found = [line for line in log.read().splitlines() if sign in line]
        assert daemon.wait(timeout=20) == 0
    assert len(found) == len(lines)
    assert all(json.loads(line.split(b" ", 2)[2]) for line in found if line.startswith(b"-3"))


def test_lines_for_people_do_not_wait() -> None:
    """A stderr that is full and never read keeps nothing from its end."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(theirs, b"x" * 4096)
    with Process("--fault", "crash@1", stderr=theirs) as daemon:
        os.close(theirs)
        daemon.send("REQ 1 START ids:1 5")
        daemon.read_until(lambda item: is_end(item, 1))
        assert daemon.finish() == 70
    os.close(ours)


def test_a_person_at_a_terminal_gets_text() -> None:
    ours, theirs = pty.openpty()
    with Process(stderr=theirs) as daemon:
        os.close(theirs)
        daemon.send("REQ 1 START ids:1 5")
        daemon.read_until(lambda item: is_end(item, 1))
        assert os.read(ours, 4096).decode().startswith("req_id=1 ")
        assert daemon.finish() == 0
    os.close(ours)


def test_a_failure_and_the_exit_code_are_in_it() -> None:
    with Process("--log", "json", "--fault", "lost@3") as daemon:
        daemon.send("REQ 1 START ids:1 5")
        assert daemon.finish() == 70
        lines = [json.loads(line) for line in daemon.log().splitlines() if line.startswith("{")]
    assert [line["event"] for line in lines] == ["start", "request", "stop"]
    assert (lines[1]["reason"], lines[1]["code"], lines[2]["code"]) == ("failed", "device_lost", 70)
