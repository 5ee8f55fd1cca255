"""Steps that throw, a device that is lost, the unexpected: what is harmed, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from paceline.protocol import DONE, FAILED, Frame, FrameReader, Message

from .process import Process
from .test_conversation import expected

STARTS = [f"REQ {n} SLOT {n - 1} START ids:{n},5 {20 + n} 4" for n in (1, 2, 3)]


def served(fault: str) -> tuple[Process, int, str]:
    with Process("--fault", fault, "--auto") as daemon:
        daemon.send(*STARTS)
        code = daemon.finish()
        return daemon, code, daemon.log()


def whole(daemon: Process, *requests: int) -> None:
    for req_id in requests:
        assert daemon.tokens(req_id) == expected([req_id, 5], 20 + req_id)
        assert daemon.terminals(req_id) == [DONE]


def failed(daemon: Process, code: str, *requests: int) -> list[dict[str, Any]]:
    ends = [daemon.end_of(req_id) for req_id in requests]
    for req_id, end in zip(requests, ends, strict=True):
        assert daemon.terminals(req_id) == [FAILED]
        assert (end["reason"], end["code"]) == ("failed", code)
        assert daemon.tokens(req_id) == expected([req_id, 5], 20 + req_id)[: end["tokens"]]
    return ends


def test_a_row_that_throws_fails_alone() -> None:
    daemon, code, log = served("row:1@6")
    told = "InjectedFault: injected for slot 1 in step 6"
    assert (code, log) == (0, f"paceline: step 6 failed ({told}), and its rows were computed one by one\n")
    (end,) = failed(daemon, "step_failed", 2)
    assert "injected for slot 1" in end["error"]
    assert end["tokens"] == 5
    whole(daemon, 1, 3)


def test_a_probe_is_no_step_that_failed() -> None:
    with Process("--fault", "row:1@3") as daemon:
        daemon.send(*(f"REQ {n} SLOT {n - 1} START ids:{n} 9 2" for n in (1, 2)), "WAIT", "SCHED_BATCH_PROBE", "STATS")
        assert "injected for slot 1" in daemon.reply(4)["rows"][1]["error"]
        assert daemon.reply(5)["retried_steps"] == 0
        assert daemon.finish() == 0
        assert daemon.log() == ""


def test_two_rows_that_throw() -> None:
    daemon, code, _ = served("row:0@1,row:2@9")
    assert code == 0
    failed(daemon, "step_failed", 1, 3)
    whole(daemon, 2)


def test_a_step_that_throws_once_harms_nobody() -> None:
    daemon, code, log = served("once@4")
    told = "InjectedFault: injected in step 4"
    assert (code, log) == (0, f"paceline: step 4 failed ({told}), and its rows were computed one by one\n")
    whole(daemon, 1, 2, 3)


def test_when_every_step_throws_everything_fails_and_the_daemon_goes_on() -> None:
    with Process("--fault", "always") as daemon:
        daemon.send(*STARTS, "WAIT", "REQ 1 START ids:1 5", "WAIT", "PING still", "STATS")
        assert daemon.reply(7)["pong"] == "still"
        assert daemon.reply(8)["failures"] == 4
        assert daemon.reply(8)["retried_steps"] == daemon.reply(8)["steps"]
        assert daemon.reply(8)["slots"]["used"] == 0
        assert daemon.finish() == 0
        failed(daemon, "step_failed", 2, 3)


def test_a_lost_device_fails_all() -> None:
    daemon, code, log = served("lost@5")
    assert code == 70
    assert log == "paceline: the device is lost: injected in step 5\n"
    assert [end["tokens"] for end in failed(daemon, "device_lost", 1, 2, 3)] == [4, 4, 4]


def test_the_unexpected_is_reported() -> None:
    with Process("--fault", "crash@5", "--auto") as daemon:
        daemon.send(*(f"# comment {number}" for number in range(3)), "PING ☃")
        daemon.write(b"\xff\xff\n" + b"PING " + b"y" * 3000 + b"\n")
        daemon.send(*(f"PING {number}" for number in range(70)), *STARTS[:2])
        assert daemon.read_to_end() == 70
        log = daemon.log()
        failed(daemon, "internal", 1, 2)
        last = next(
            item.body["re"] for item in reversed(daemon.items) if isinstance(item, Message) and "re" in item.body
        )
    assert last == 78
    assert "InjectedFault: crash before step 5" in log and "Traceback" in log
    assert "  78: REQ 2 SLOT 1 START ids:<2 tokens> 22 4\n" in log
    assert "ids:2,5" not in log
    assert log.count(": PING") == 62 and "PING 7\n" not in log and "PING 8\n" in log
    assert "slot=1 epoch=1 owner=2 position=5 pages=1 bytes=512" in log


def test_everybody_has_an_end_though_nobody_reads_the_report() -> None:
    with Process("--fault", "crash@2", "--slots", "2048") as daemon:  # the report is more than a pipe holds
        daemon.send(*STARTS)
        assert daemon.read_to_end() == 70
        failed(daemon, "internal", 1, 2, 3)


def test_the_books_may_be_wrong_when_it_is_reported(tmp_path: Path) -> None:
    """Every slot that is given back raises, in the step that ends request 1 and when the rest are failed."""
    plant = (
        "import sys; from paceline.daemon import main, slots; slots.Slots.release = lambda *_: 1 // 0; "
        "sys.exit(main.main(['--engine', 'null', '--stream', 'tagged']))"
    )
    lines = [f"TRACE on {tmp_path}/t", *STARTS, "REQ 1 CONTINUE 99", "WAIT"]
    done = subprocess.run(
        [sys.executable, "-c", plant], input="\n".join(lines).encode() + b"\n", capture_output=True, check=False
    )
    assert done.returncode == 70
    items = list(FrameReader().feed(done.stdout))
    ends = [item for item in items if isinstance(item, Frame) and item.value == FAILED]
    assert sorted(item.req_id for item in ends) == [1, 2, 3]
    assert done.stderr.count(b"Traceback") == 1 and b"slot=0 epoch=1 owner=1" in done.stderr
    assert json.loads((tmp_path / "t").read_text())[-1]["ph"] in "CEi"


def test_the_report_shows_odd_lines_in_a_readable_form() -> None:
    with Process("--fault", "crash@1") as daemon:
        daemon.write("PING ☃\x1b[31m\n".encode() + b"\xff\n" + b"PING " + b"y" * 3000 + b"\nREQ 1 START ids:1,2,3 5\n")
        assert daemon.read_to_end() == 70
        log = daemon.log()
    assert "  1: PING \\u2603\\x1b[31m\n  2: (bad_utf8)\n  3: PING yyy" in log
    assert "(3005 characters)\n  4: REQ 1 START ids:<3 tokens> 5\n" in log


def test_a_process_that_is_stopped_goes_on_where_it_was() -> None:
    with Process("--fault", "slow:5", "--auto") as daemon:
        daemon.send(*STARTS)
        daemon.read_until(lambda item: isinstance(item, Frame) and len(daemon.tokens(1)) >= 3)
        for _ in range(3):
            daemon.signal(signal.SIGSTOP)
            os.waitid(os.P_PID, daemon.popen.pid, os.WSTOPPED)
            daemon.send("PING stopped")
            time.sleep(0.2)
            daemon.signal(signal.SIGCONT)
        daemon.send("STATS")
        assert daemon.reply(7)["ok"]
        assert daemon.finish() == 0
        assert daemon.log() == ""
        whole(daemon, 1, 2, 3)
        assert [daemon.reply(line)["pong"] for line in (4, 5, 6)] == ["stopped"] * 3
