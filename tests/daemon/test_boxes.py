"""Inbox and outbox: bounded, in order, and never asleep when there is news."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from paceline.daemon import outbox as outbox_module
from paceline.daemon import stdio
from paceline.daemon.inbox import Gone, Inbox, News, Stop
from paceline.daemon.outbox import Outbox
from paceline.protocol import BadLine, Frame, Item, Line, Message


def test_an_inbox_tells_all_that_has_come() -> None:
    inbox = Inbox()
    inbox.poll(wait=False)
    assert (inbox.next_line(), inbox.ended, inbox.stop, inbox.gone) == (None, False, None, None)
    inbox.put_lines([Line(1, "PING"), BadLine(2, "bad_utf8", "")])
    inbox.put_lines([])
    inbox.put(News.WAKE)
    inbox.put(News.END_OF_INPUT)
    inbox.put(Stop(15))
    inbox.put(Gone(None))
    inbox.poll(wait=True)
    assert (inbox.ended, inbox.stop, inbox.gone) == (True, 15, Gone(None))
    assert [inbox.next_line() for _ in range(3)] == [Line(1, "PING"), BadLine(2, "bad_utf8", ""), None]


def test_waiting_has_an_end() -> None:
    Inbox().poll(wait=True, timeout=0.01)


def test_news_wake_a_loop_that_waits() -> None:
    inbox = Inbox()
    threading.Timer(0.02, lambda: inbox.put_lines([Line(1, "PING")])).start()
    inbox.poll(wait=True, timeout=5.0)
    assert inbox.next_line() == Line(1, "PING")


def test_whoever_puts_lines_waits_for_room() -> None:
    inbox = Inbox(room=1000)
    put = []

    def fill() -> None:
        for number in range(1, 101):
            inbox.put_lines([Line(number, "x" * 36)])  # 100 bytes with what a line costs
            put.append(number)

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    deadline = time.monotonic() + 10
    while len(put) < 10 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(put) == 10
    taken = []
    while len(taken) < 100:
        inbox.poll(wait=not inbox.lines, timeout=5.0)
        line = inbox.next_line()
        assert line is not None
        taken.append(line.number)
    thread.join(5.0)
    assert taken == list(range(1, 101))


def plain(items: Iterable[Item]) -> bytes:
    return b"".join(b"x" * item[1] for item in items if isinstance(item, Frame))


def test_an_outbox_keeps_the_order_and_counts_what_is_written() -> None:
    outbox = Outbox(plain, lambda: None)
    outbox.put([])
    outbox.put([Frame(1, 3), Frame(1, 4)])
    outbox.put([Frame(1, 5)])
    assert outbox.size == 12
    assert outbox.take() == b"x" * 12
    assert outbox.size == 12
    outbox.written(12)
    assert outbox.size == 0
    outbox.close()
    assert outbox.take() == b""


def test_it_wakes_at_its_limits_and_when_all_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "STALLED", 10)
    monkeypatch.setattr(outbox_module, "FULL", 100)
    wakes: list[int] = []
    outbox = Outbox(plain, lambda: wakes.append(outbox.size))
    outbox.put([Frame(1, 120)])
    assert (outbox.stalled, outbox.full) == (True, True)
    for count in (10, 10, 60, 29, 1, 9):
        outbox.written(count)
    assert wakes == [100, 10]
    assert (outbox.stalled, outbox.full) == (False, False)
    outbox.close()
    outbox.written(1)
    assert wakes == [100, 10, 0]


def test_a_piece_is_written_at_once_when_nothing_waits_and_what_is_left_of_it_waits() -> None:
    written: list[bytes] = []
    room = [2, 1, 0]

    def write_now(data: bytes) -> int:
        count = min(room.pop(0), len(data))
        written.append(data[:count])
        return count

    outbox = Outbox(plain, lambda: None, write_now)
    outbox.put([Frame(1, 2)])
    assert (outbox.size, written) == (0, [b"xx"])
    outbox.put([Frame(1, 3)])
    assert outbox.size == 2
    outbox.put([Frame(1, 1)])  # nobody overtakes: what waits goes first
    assert (outbox.size, len(room)) == (3, 1)
    outbox.written(len(outbox.take()))
    outbox.put([Frame(1, 1)])
    assert (outbox.size, room) == (1, [])


@pytest.mark.parametrize("kind", ["pipe", "file", "socket"])
def test_what_is_sure_not_to_block_is_written_now(kind: str, tmp_path: Path) -> None:
    match kind:
        case "pipe":
            reading, writing = os.pipe()
        case "file":
            writing = os.open(tmp_path / "frames", os.O_RDWR | os.O_CREAT)
            reading = os.open(tmp_path / "frames", os.O_RDONLY)
        case _:
            here, there = socket.socketpair()
            reading, writing = here.detach(), there.detach()
    write = stdio.write_now(writing)
    assert write(b"abc") == (0 if kind == "socket" else 3)
    assert write(bytes(5000)) == 0
    if kind == "pipe":
        while write(bytes(4096)):
            pass
        assert os.read(reading, 3) == b"abc"
        os.close(reading)
        assert write(b"x") == 0  # the reader has gone: the writer's to notice
    else:
        os.close(reading)
    os.close(writing)
    assert write(b"x") == 0


def test_a_line_that_somebody_asked_for_waits_until_the_daemon_is_to_end() -> None:
    reading, writing = os.pipe()
    real = os.dup(2)
    inbox = Inbox()
    tell = stdio.Teller(stdio.Patience(inbox.leaving, 0.3))
    told = threading.Thread(target=lambda: [tell("x" * 3000) for _ in range(100)])
    try:
        os.dup2(writing, 2)
        told.start()
        told.join(0.5)
        assert told.is_alive()
        assert os.read(reading, 30_000).startswith(b"x" * 3000 + b"\n")
        inbox.put(Stop(15))
        told.join(5.0)
        assert not told.is_alive()
    finally:
        os.dup2(real, 2)
        for descriptor in (real, reading, writing):
            os.close(descriptor)


def test_a_put_in_the_middle_of_a_write_hides_no_fall_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The put comes where the writer has read one of the counts and not yet the other."""
    monkeypatch.setattr(outbox_module, "STALLED", 10)
    wakes: list[int] = []

    class Interrupted(Outbox):
        @property
        def size(self) -> int:
            if self.interrupt:
                self.interrupt = False
                self._put += 9  # the loop's put
            return super().size

    outbox = Interrupted(plain, lambda: wakes.append(1))
    outbox.interrupt = False
    outbox.put([Frame(1, 6)])
    outbox.interrupt = True
    outbox.written(6)
    assert (outbox.size, outbox.stalled) == (9, False)
    outbox.put([Frame(1, 3)])
    assert outbox.stalled
    outbox.interrupt = False
    wakes.clear()  # to be woken for nothing is allowed
    outbox.written(5)
    assert wakes == [1]


def test_a_writer_that_waits_wakes_for_items_and_for_the_end() -> None:
    outbox = Outbox(plain, lambda: None)
    threading.Timer(0.02, lambda: outbox.put([Frame(1, 2)])).start()
    assert outbox.take() == b"xx"
    threading.Timer(0.02, outbox.close).start()
    assert outbox.take() == b""


def test_items_that_add_nothing_to_the_stream_leave_it_open() -> None:
    """An empty piece is what closes it."""
    outbox = Outbox(lambda items: b"".join(b"data" for item in items if isinstance(item, Frame)), lambda: None)
    for _ in range(2):
        outbox.put([Frame(1, 2)])
        outbox.put([Message(0, {"event": "ready"})])
        assert outbox.take() == b"data"
