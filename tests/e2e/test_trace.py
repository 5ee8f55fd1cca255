"""TRACE through a real process: what the file holds when it ends well, and when it does not."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from paceline.protocol import YIELD, Frame

from .process import Process, is_end, wait_until_asleep

LIMIT = 20_000
ROOT = Path(__file__).parent.parent.parent


def read_trace(path: Path) -> list[dict[str, Any]]:
    """The closing bracket may be missing."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text if text.rstrip().endswith("]") else f"{text}]")  # type: ignore[no-any-return]


def rows(events: list[dict[str, Any]], req_id: int, kind: str | None = None) -> list[dict[str, Any]]:
    kinds = ("prefill", "decode") if kind is None else (kind,)
    return [event["args"] for event in events if event.get("cat") in kinds and event["args"]["req"] == req_id]


def marks(events: list[dict[str, Any]], name: str) -> list[int]:
    return [event["args"]["req"] for event in events if event["ph"] == "i" and event["name"] == name]


def test_the_timeline_matches_the_frames(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    flags = ("--slots", "2", "--step-tokens", "4", "--prefill-tokens", "4", "--auto", "--fault", "slow:1")
    with Process(*flags) as daemon:
        daemon.send(f"TRACE on {path}", f"TRACE on {path}.2")
        daemon.send("REQ 1 START ids:1,2,3,4,5,6 20 5", "REQ 2 START ids:1 4000 100", "REQ 3 START ids:9,8,7 6 2")
        daemon.send("REQ 2 START ids:1 5")
        daemon.read_until(lambda item: is_end(item, 1))
        daemon.send("CANCEL 2")
        daemon.read_until(lambda item: is_end(item, 3))
        daemon.send("WAIT", "STATS", "TRACE off")
        assert daemon.reply(1) == {"re": 1, "ok": True}
        assert "expected TRACE off first" in daemon.reply(2)["error"]
        assert daemon.reply(10)["ok"]
        events = json.loads(path.read_text())
        assert daemon.finish() == 0
        assert daemon.log() == ""
        stats = daemon.reply(9)
        steps = [event for event in events if event.get("cat") == "step"]
        assert len(steps) == stats["steps"]
        assert sum(event["args"]["prefill_tokens"] for event in steps) == stats["tokens_in"]
        counts = [event["args"]["rows"] for event in steps]
        assert {str(count): counts.count(count) for count in sorted(set(counts))} == stats["rows_per_step"]
        for req_id in (1, 2, 3):
            tokens = daemon.tokens(req_id)
            assert len(rows(events, req_id, "decode")) in (len(tokens) - 1, len(tokens))
            assert marks(events, "yield").count(req_id) == daemon.items.count(Frame(req_id, YIELD))
        chunks = [(row["from"], row["to"]) for row in rows(events, 1, "prefill")]
        assert [position for chunk in chunks for position in range(*chunk)] == list(range(6)) and len(chunks) > 1
        assert marks(events, "end: cancelled") == [2] and marks(events, "end: length") == [1, 3]
        assert marks(events, "refused: duplicate_request") == [2]
        waits = [event for event in events if event.get("cat") == "queue"]
        assert [(event["ph"], event["args"]["req"]) for event in waits] == [("b", 3), ("e", 3)]
        by_step = {event["args"]["step"]: event for event in steps}
        for event in events:
            if event.get("cat") in ("prefill", "decode"):
                step = by_step[event["args"]["step"]]
                assert (event["ts"], event["dur"]) == (step["ts"], step["dur"])


def test_an_idle_daemon_has_written_everything_and_death_leaves_it_readable(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with Process() as daemon:
        daemon.send(f"TRACE on {path}", "REQ 1 START ids:1 9 3")
        daemon.read_until(lambda item: item == Frame(1, YIELD))
        wait_until_asleep(daemon.popen.pid)
        assert marks(read_trace(path), "yield") == [1]
        daemon.popen.kill()
        daemon.popen.wait()
        assert len(rows(read_trace(path), 1)) == 3


def test_a_busy_daemon_writes_each_second(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with Process("--fault", "slow:50") as daemon:
        daemon.send(f"TRACE on {path}", "REQ 1 START ids:1 900")
        daemon.reply(2)
        time.sleep(2.0)
        deadline = time.monotonic() + 20
        while len(rows(read_trace(path), 1)) <= 10:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        daemon.signal(signal.SIGTERM)
        assert daemon.read_to_end() == 0
    events = json.loads(path.read_text())
    assert marks(events, "end: cancelled") == [1]
    assert sum(event["ph"] == "B" for event in events) == sum(event["ph"] == "E" for event in events)


def test_the_end_of_input_and_a_lost_device_close_the_trace(tmp_path: Path) -> None:
    for flags, code, reason in (((), 0, "length"), (("--fault", "lost@3"), 70, "failed")):
        path = tmp_path / f"{reason}.json"
        with Process(*flags) as daemon:
            daemon.send(f"TRACE on {path}", "REQ 1 START ids:1 9")
            assert daemon.finish() == code
        assert marks(json.loads(path.read_text()), f"end: {reason}") == [1]


def test_a_full_disk_refuses_a_trace() -> None:
    with Process() as daemon:
        daemon.send("TRACE on /dev/full", "REQ 1 START ids:1 9")
        reply = daemon.reply(1)
        assert (reply["code"], reply["error"]) == (
            "bad_argument",
            "path /dev/full: No space left on device; expected a file that can be written",
        )
        assert daemon.finish() == 0
        assert len(daemon.tokens(1)) == 9 and daemon.log() == ""


def test_a_disk_that_fills_up_ends_the_trace_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t.json"

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))

    with Process(preexec_fn=small_files) as daemon:
        daemon.send(f"TRACE on {path}", "REQ 1 START ids:1 2000", "WAIT", "TRACE off")
        assert daemon.reply(4)["error"] == f"'off': the trace to {path} has ended: File too large"
        assert daemon.finish() == 0
        assert daemon.log() == f"paceline: the trace to {path} has ended: File too large\n"
        assert len(daemon.tokens(1)) == 2000
    assert path.stat().st_size <= LIMIT
    assert read_trace(path)


def test_a_trace_is_drawn(tmp_path: Path) -> None:
    path, picture = tmp_path / "t.json", tmp_path / "t.svg"
    with Process("--slots", "1") as daemon:
        daemon.send(f"TRACE on {path}", "REQ 1 START ids:1,2,3 9 3", "REQ 2 START ids:1 9", "CANCEL 1", "WAIT")
        assert daemon.finish() == 0
    for whole in (True, False):
        if not whole:
            path.write_text(path.read_text()[:-40])
        subprocess.run([sys.executable, ROOT / "scripts" / "plot_trace.py", path, picture], check=True)
        assert "<svg" in picture.read_text()


def test_what_is_no_trace_is_not_drawn(tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b"\xff\xfe")
    for name, reason in (("no", "No such file"), (".", "Is a directory"), ("odd", "can't decode")):
        command = [
            sys.executable,
            str(ROOT / "scripts" / "plot_trace.py"),
            str(tmp_path / name),
            str(tmp_path / "p.svg"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "Traceback" not in done.stderr
        assert f"cannot read the trace {tmp_path / name}" in done.stderr and reason in done.stderr


@pytest.mark.parametrize(
    ("text", "more", "reason"),
    [
        ("[1]", [], "is no trace"),
        ('{"a": 1}', [], "is no trace"),
        ('[{"ph": "X", "pid": 1}]', [], "is no trace"),
        ('[{"ph": "X", "pid": 1, "tid": 1, "ts": 5, "dur": 1, "name": "a"}]', [], "is no trace"),
        ("not a trace at all\n", [], "is no trace"),
        ("[\n", [], "nothing happened between 0 and 0 ms"),
        ("[]", ["--to", "nan"], "nothing happened between 0 and nan ms"),
        ("[]", ["--to", "5", "--width", "0"], "--width 0: expected inches above 0"),
    ],
)
def test_odd_traces_and_arguments_are_named(tmp_path: Path, text: str, more: list[str], reason: str) -> None:
    (tmp_path / "t.json").write_text(text)
    command = [sys.executable, str(ROOT / "scripts" / "plot_trace.py"), str(tmp_path / "t.json"), "p.svg", *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, "Traceback" in done.stderr, reason in done.stderr) == (2, False, True), done.stderr


def test_moves_that_a_save_makes_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    with Process() as daemon:
        daemon.send(f"TRACE on {path}", "REQ 1 START ids:1,2,3 9 1", "WAIT", "SLOT 0 SNAPSHOT a")
        assert daemon.reply(4)["ok"]
        daemon.send("REQ 2 RESTORE a ids:1,2,3,4 2", f"SAVE a {tmp_path}/a", f"SAVE a {tmp_path}/b", "WAIT")
        assert daemon.finish() == 0
    (moves,) = [event for event in read_trace(path) if event.get("cat") == "moves"]
    assert moves["args"] == {"moves": 2}, "a copy of the page, and the seat"
