"""The trace as a file: opened, kept openable, ended, and what becomes of it when it cannot be written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from driver import Driver
from paceline.daemon import trace_file
from paceline.daemon.observers import Observers
from paceline.daemon.session import Session
from paceline.protocol import Message, Refusal, Trace
from traces import check_nesting, instants, read_trace

REFUSED = [Message(0, {"re": 1, "ok": False, "code": "bad_command", "error": "x"})]


def session() -> Session:
    return Driver(slots=2).session


def test_a_trace_is_an_array_that_can_be_opened_at_any_time(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    observers = Observers()
    assert not observers.on
    observers.trace(Trace(str(path)), session(), 10.0)
    assert observers.on
    opening = read_trace(path)
    assert {event["ph"] for event in opening} == {"M"}
    observers.saw(REFUSED, 10.5)
    assert read_trace(path) == opening
    observers.saw(REFUSED, 11.0)
    assert [event["ts"] for event in instants(read_trace(path), "refused: bad_command")] == [5e5, 1e6]
    observers.saw(REFUSED, 11.1)
    observers.flush()
    assert len(read_trace(path)) == len(opening) + 3
    observers.saw(REFUSED, 11.2)
    observers.trace(Trace(None), session(), 12.0)
    assert not observers.on
    assert len(json.loads(path.read_text())) == len(opening) + 4


def test_much_is_written_before_a_second_is_over(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    observers = Observers()
    observers.trace(Trace(str(path)), session(), 0.0)
    observers.saw(REFUSED * 2000, 0.001)
    assert len(instants(read_trace(path), "refused: bad_command")) == 2000


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/nowhere/at/all", "No such file or directory"),
        (".", "Is a directory"),
        ("/dev/full", "No space left on device"),
        ("x" * 5000, "File name too long"),
    ],
)
def test_a_path_that_cannot_be_written_is_refused(path: str, reason: str) -> None:
    logged: list[str] = []
    observers = Observers(logged.append)
    with pytest.raises(Refusal) as caught:
        observers.trace(Trace(path), session(), 0.0)
    assert caught.value.code == "bad_argument"
    assert f"path {path[:200]}" in caught.value.error and reason in caught.value.error
    assert len(caught.value.error) < 400
    assert not observers.on and not logged


def test_a_pipe_that_nobody_reads_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refusal, match="No such device"):
        Observers().trace(Trace(str(tmp_path / "pipe")), session(), 0.0)


def test_on_while_on_and_off_while_off_are_refused(tmp_path: Path) -> None:
    observers = Observers()
    with pytest.raises(Refusal, match="'off': no trace is on"):
        observers.trace(Trace(None), session(), 0.0)
    observers.trace(Trace(str(tmp_path / "a")), session(), 0.0)
    with pytest.raises(Refusal, match="expected TRACE off first"):
        observers.trace(Trace(str(tmp_path / "b")), session(), 0.0)
    assert not (tmp_path / "b").exists()
    observers.trace(Trace(None), session(), 0.0)
    observers.trace(Trace(str(tmp_path / "a")), session(), 0.0)
    observers.close(1.0)
    check_nesting(json.loads((tmp_path / "a").read_text()))


def test_an_error_later_ends_the_trace_and_half_an_event_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    logged: list[str] = []
    observers = Observers(logged.append)
    observers.trace(Trace(str(path)), session(), 0.0)
    observers.saw(REFUSED, 2.0)
    write = os.write
    room = [30]

    def full(descriptor: int, data: memoryview) -> int:
        if not room[0]:
            raise OSError(28, os.strerror(28))
        count = write(descriptor, data[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(trace_file.os, "write", full)
    observers.saw(REFUSED, 4.0)
    assert not observers.on
    assert logged == [f"paceline: the trace to {path} has ended: No space left on device"]
    assert len(instants(read_trace(path), "refused: bad_command")) == 1
    with pytest.raises(Refusal, match="has ended: No space left on device"):
        observers.trace(Trace(None), session(), 5.0)


def test_an_error_at_the_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str] = []
    observers = Observers(logged.append)
    observers.trace(Trace(str(tmp_path / "t")), session(), 0.0)

    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(trace_file.os, "write", full)
    with pytest.raises(Refusal, match="has ended: No space left on device"):
        observers.trace(Trace(None), session(), 5.0)
    assert len(logged) == 1 and not observers.on


def test_why_a_step_was_tried_again_is_told_once() -> None:
    logged: list[str] = []
    observers = Observers(logged.append)
    for step, cause in ((3, "MemoryError: a"), (4, "MemoryError: a"), (9, "MemoryError: b")):
        observers.retried(cause, step)
    assert logged == [
        "paceline: step 3 failed (MemoryError: a), and its rows were computed one by one",
        "paceline: step 9 failed (MemoryError: b), and its rows were computed one by one",
    ]


def test_the_commands_are_answered_with_ok_alone(tmp_path: Path) -> None:
    driver = Driver()
    assert driver.reply(f"TRACE on {tmp_path / 't'}") == {"re": 1, "ok": True}
    assert driver.reply(f"TRACE on {tmp_path / 'u'}")["code"] == "bad_argument"
    assert driver.reply("TRACE off") == {"re": 3, "ok": True}
    assert driver.session.counters.refusals == {"bad_argument": 1}
