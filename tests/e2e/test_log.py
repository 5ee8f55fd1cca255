"""The log on stderr through a real process."""

from __future__ import annotations

import json
import os
import pty

import pytest
from process import Process, is_end

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
