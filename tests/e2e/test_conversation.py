"""The commands through real pipes, as a parent process uses them."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time

import pytest
from paceline.daemon.null_engine import mix
from paceline.protocol import CANCELLED, DONE, YIELD, Frame, Message

from ..procfs import cpu_seconds
from .process import Process, is_end, wait_until_asleep


def expected(prompt: list[int], total: int) -> list[int]:
    """What the null engine gives a request that is alone."""
    state, tokens = 0, list[int]()
    for token in prompt:
        state = mix(state, token)
    for _ in range(total):
        tokens.append(state % 32000)
        state = mix(state, tokens[-1])
    return tokens


def test_the_originals_validation() -> None:
    with Process() as daemon:
        assert daemon.ready()["slots"] == 4
        daemon.send("REQ 4 SLOT 0 START ids:6403,1980,253 60 2", "REQ 5 SLOT 1 START ids:504,3575 40 2")
        for req_id in (4, 5):
            daemon.read_until(lambda item, req_id=req_id: item == Frame(req_id, YIELD))  # type: ignore[misc]
        daemon.send("REQ 4 CONTINUE 2 epoch=7", "REQ 4 CONTINUE 2", "WAIT", "STATS")
        assert daemon.reply(3)["code"] == "stale"
        assert daemon.reply(6)["tokens_in"] == 5
        daemon.send("SCHED_BATCH_PROBE", "SCHED_BATCH_TARGET_STEP", "SCHED_DRAIN", "REQ 6 START ids:9 30 3")
        probe = daemon.reply(7)
        assert probe["mismatches"] == 0 and [row["equal"] for row in probe["rows"]] == [True, True]
        assert [row["remaining"] for row in daemon.reply(8)["rows"]] == [55, 37]
        assert daemon.reply(10)["ok"]
        daemon.read_until(lambda item: isinstance(item, Message) and item.body.get("event") == "drained")
        assert daemon.tokens(4) == expected([6403, 1980, 253], 60)
        assert daemon.tokens(5) == expected([504, 3575], 40)
        assert daemon.tokens(6) == expected([9], 30)
        daemon.send(
            "REQ 7 SLOT 2 START ids:1 9 1", "WAIT", "REQ 7 CANCEL", "REQ 8 SLOT 2 START ids:1 9", "REQ 7 CONT 1"
        )
        assert daemon.reply(15)["code"] == "not_active"
        assert daemon.finish() == 0
        assert [daemon.terminals(req_id) for req_id in (4, 5, 6, 7, 8)] == [[DONE]] * 3 + [[CANCELLED], [DONE]]


def test_lines_may_come_a_byte_at_a_time() -> None:
    with Process() as daemon:
        for byte in b"\n# hello\r\nREQ=1 slot 0 start ids:1,2 4\r\n  \t\nREQUEST 2 PING\tx\n":
            daemon.write(bytes([byte]))
        assert daemon.reply(5)["pong"] == "x"
        assert daemon.finish() == 0
        assert daemon.tokens(1) == expected([1, 2], 4)
        assert [item.body["re"] for item in daemon.items if isinstance(item, Message) and "re" in item.body] == [3, 5]


def test_lines_written_before_the_daemon_is_ready_wait() -> None:
    with Process() as daemon:
        daemon.send("REQ 1 START ids:1 3")
        assert daemon.ready()["model"] == "null"
        assert daemon.finish() == 0
        assert daemon.terminals(1) == [DONE]


def test_after_quit_no_line_is_read() -> None:
    with Process() as daemon:
        daemon.send("REQ 1 START ids:1 30 5", "QUIT", "PING", "PING")
        assert daemon.read_to_end() == 0
        assert [item.body["re"] for item in daemon.items if isinstance(item, Message) and "re" in item.body] == [1, 2]
        assert len(daemon.tokens(1)) == 5 and daemon.terminals(1) == [CANCELLED]


def test_the_end_of_input_lets_grants_finish() -> None:
    with Process("--slots", "1") as daemon:
        daemon.send("REQ 1 START ids:1 30", "REQ 2 START ids:2 20", "REQ 3 START ids:3 9 4")
        assert daemon.finish() == 0
        assert [daemon.terminals(req_id) for req_id in (1, 2, 3)] == [[DONE], [DONE], [CANCELLED]]
        assert len(daemon.tokens(3)) == 4


def test_more_requests_than_slots_and_seats() -> None:
    with Process("--slots", "3", "--max-batch", "2", "--auto", "--step-tokens", "8") as daemon:
        prompts = {req_id: list(range(req_id, 4 * req_id)) for req_id in range(1, 13)}
        daemon.send(*(f"REQ {n} START ids:{','.join(map(str, ids))} {40 + n} 3" for n, ids in prompts.items()))
        assert daemon.finish() == 0
        for req_id, ids in prompts.items():
            assert daemon.tokens(req_id) == expected(ids, 40 + req_id)
            assert daemon.end_of(req_id)["reason"] == "length"


def test_text_stream() -> None:
    command = [sys.executable, "-m", "paceline.daemon.main", "--engine", "null", "--stream", "text"]
    done = subprocess.run(command, input=b"REQ 1 START ids:1 2 1\n", capture_output=True, timeout=20, check=True)
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith('-3 0 {"event":"ready","protocol":1,')
    first, second = expected([1], 2)
    assert lines[2:4] == [f"-2 1 {first}", "-2 1 -4"]
    assert lines[-1] == "-2 1 -5"
    assert str(second) not in done.stdout.decode().split()
    assert done.stderr == b""


def test_text_is_the_default_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "paceline.daemon.main", "--engine", "null"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs) as daemon:
        assert os.read(ours, 1 << 12).startswith(b'-3 0 {"event":"ready"')
        assert daemon.stdin is not None
        daemon.stdin.close()
        assert daemon.wait(20) == 0
    os.close(ours)
    os.close(theirs)


def test_frames_go_to_an_inherited_descriptor() -> None:
    ours, theirs = os.pipe()
    command = [
        sys.executable,
        "-m",
        "paceline.daemon.main",
        "--engine=null",
        f"--stream-fd={theirs}",
        "--stream-tagged",
    ]
    done = subprocess.run(command, input=b"PING\n", pass_fds=[theirs], capture_output=True, timeout=20, check=True)
    os.close(theirs)
    data = b"".join(iter(lambda: os.read(ours, 1 << 16), b""))
    os.close(ours)
    assert b"ready" in data and b"pong" in data
    assert done.stdout == b"" == done.stderr


STRAY = """
import os, sys
from paceline.daemon import main, null_engine
step = null_engine.NullEngine.step
def noisy(self, rows):
    print("stray words", flush=True)
    os.write(1, b"stray bytes")
    return step(self, rows)
null_engine.NullEngine.step = noisy
sys.exit(main.main(["--engine", "null", "--stream", "tagged"]))
"""


def test_a_stray_print_goes_to_the_log() -> None:
    command = [sys.executable, "-c", STRAY]
    done = subprocess.run(command, input=b"REQ 1 START ids:1 3\n", capture_output=True, timeout=20, check=True)
    assert b"stray" not in done.stdout
    assert done.stderr.count(b"stray words") == 3


@pytest.mark.parametrize("lines", [[], ["REQ 1 START ids:1 9 2"], ["REQ 1 START ids:1 9 2", "WAIT"]])
def test_an_idle_daemon_sleeps(lines: list[str]) -> None:
    with Process() as daemon:
        daemon.send(*lines, "PING")
        daemon.reply(len(lines) + 1)
        wait_until_asleep(daemon.popen.pid)
        before = cpu_seconds(daemon.popen.pid)
        time.sleep(0.4)
        assert cpu_seconds(daemon.popen.pid) - before <= 0.03
        daemon.signal(signal.SIGTERM)
        assert daemon.read_to_end() == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--stream", "raw"], "'raw': expected tagged, text or bare"),
        (["--slots", "0"], "'0': expected a whole number from 1 to 4096"),
        (["--stream-fd", "2"], "2 is the log"),
        (["--fault", "rain"], "'rain' is no fault; expected row:SLOT@N"),
        (["--no-such-flag"], "unrecognized arguments: --no-such-flag"),
        (["--stream-fd", "77"], "descriptor 77 cannot carry the stream"),
    ],
)
def test_usage_errors(flags: list[str], words: str) -> None:
    with Process(*flags) as daemon:
        assert daemon.read_to_end() == 2
        assert words in daemon.log()
        assert daemon.items == []


def test_help_says_what_there_is() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "paceline.daemon.main", "--help"], capture_output=True, timeout=20, check=True
    )
    for word in ("--target-cache-slots", "--max-ctx", "--fault", "row:SLOT@N", "exit codes"):
        assert word in done.stdout.decode()


def test_a_cancel_takes_effect_before_the_next_step() -> None:
    with Process("--fault", "slow:60") as daemon:
        daemon.send("REQ 1 START ids:1 500")
        daemon.read_until(lambda item: item.req_id == 1 and isinstance(item, Frame))
        daemon.send("CANCEL 1")
        daemon.read_until(lambda item: is_end(item, 1))
        assert len(daemon.tokens(1)) < 20
        assert daemon.finish() == 0
