"""An unexpected error in the session: everybody has an end all the same, and the report is made."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from driver import Driver, events_of, limits, signals_of, terminal_of
from paceline.daemon import loop as loop_module
from paceline.daemon.crash import CommandLog, report
from paceline.daemon.engine import DeviceLost
from paceline.daemon.inbox import AnyLine, Gone, Inbox, News
from paceline.daemon.loop import Loop
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.outbox import Outbox
from paceline.daemon.requests import Request
from paceline.daemon.session import Session
from paceline.protocol import CANCELLED, DONE, FAILED, BadLine, Item, Line, Message

FOUR = [f"REQ {req_id} START ids:{req_id},5 {total}" for req_id, total in ((1, 3), (2, 3), (3, 9), (4, 9))]


def broken(one: Driver, place: object, name: str, monkeypatch: pytest.MonkeyPatch, victim: int = 2) -> None:
    """From now on `place.name` throws when it meets request `victim`."""
    whole = getattr(place, name)

    def throw(request: Request, *rest: Any) -> Any:
        if request.req_id == victim:
            raise ValueError("planted")
        return whole(request, *rest)

    monkeypatch.setattr(place, name, throw)


def after_the_crash(one: Driver) -> list[Item]:
    return one.take(one.session.fail_all("internal error", 9.0))


@pytest.mark.parametrize("place", ["scheduler.leave", "admission.vacate", "cache.leave", "slots.release"])
def test_a_step_that_breaks_at_an_end(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Request 1 ends in the step that breaks at the end of request 2."""
    one = Driver(slots=3)
    for line in FOUR:
        one.send(line)
    one.send("REQ 7 SCHED_DRAIN")
    room, name = place.split(".")
    lifecycle = one.session.lifecycle
    if room == "slots":
        monkeypatch.setattr(lifecycle.admission.slots, name, lambda slot, epoch: 1 // (slot != 1))
    else:
        broken(one, getattr(lifecycle, room), name, monkeypatch)
    with pytest.raises((ValueError, ZeroDivisionError)) as caught:
        one.run()
    text = report(caught.value, CommandLog(), one.session)
    assert "slot=1 epoch=1 owner=2" in text and "slot=2 epoch=1 owner=3" in text
    after_the_crash(one)
    assert [terminal_of(one.items, req_id) for req_id in (1, 2, 3, 4)] == [DONE, FAILED, FAILED, FAILED]
    assert len(events_of(one.items, "end")) == 4 and len(events_of(one.items, "drained")) == 1
    assert not one.session.live


def test_a_command_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Driver(slots=4)
    for line in FOUR:
        one.send(f"{line} 1")
    one.run()
    broken(one, one.session.lifecycle.admission, "vacate", monkeypatch)
    with pytest.raises(ValueError, match="planted"):
        one.end()
    after_the_crash(one)
    assert [signals_of(one.items, req_id)[-1] for req_id in (1, 2, 3, 4)] == [CANCELLED, FAILED, FAILED, FAILED]


def test_a_signal_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Driver(slots=4)
    for line in FOUR:
        one.send(line)
    broken(one, one.session.lifecycle.admission, "vacate", monkeypatch, victim=3)
    with pytest.raises(ValueError, match="planted"):
        one.session.shutdown(0.0)
    after_the_crash(one)
    assert [signals_of(one.items, req_id) for req_id in (1, 2, 3, 4)] == [[CANCELLED]] * 2 + [[FAILED]] * 2


def test_lines_that_wait_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Driver(slots=4)
    one.send(FOUR[1])
    assert not one.send("REQ 8 WAIT")
    broken(one, one.session.lifecycle.admission, "vacate", monkeypatch)
    with pytest.raises(ValueError, match="planted"):
        one.run()
    items = after_the_crash(one)
    assert [item.body for item in items if isinstance(item, Message) and item.req_id == 8] == [
        {"re": 2, "ok": False, "code": "internal", "error": "internal error"}
    ]
    assert not one.session.holding


def looping(lines: list[AnyLine], error: Exception, inbox: Inbox | None = None) -> tuple[list[Item], Loop]:
    """A loop whose engine raises `error` at the first line that reads pages, and what it has put into the stream."""
    bounds, put = limits(), list[Item]()
    engine = NullEngine(bounds.slots, bounds.context)

    def fail(page: int) -> bytes:
        raise error

    engine.read_page = fail  # type: ignore[method-assign]
    inbox = inbox or Inbox()
    inbox.put_lines(lines)

    def note(items: Iterable[Item]) -> bytes:
        put.extend(items)
        return b""

    outbox = Outbox(note, lambda: None)
    session = Session(engine.info, bounds, lambda: 1)
    return put, Loop(session, engine, inbox, outbox, lambda: 0.0, CommandLog())


@pytest.mark.parametrize(("error", "code"), [(DeviceLost("gone"), "device_lost"), (OSError("planted"), "internal")])
def test_every_line_that_was_read_is_answered(error: Exception, code: str, tmp_path: Path) -> None:
    lines = [
        "REQ 1 START ids:1,2 9 1",
        "WAIT",
        "SLOT 0 SNAPSHOT a",
        f"REQ 7 SAVE a {tmp_path}/a",
        "REQ 8 PING",
        "REQ 9",
    ]
    read = [Line(number, text) for number, text in enumerate(lines, 1)]
    items, loop = looping([*read, BadLine(7, "bad_utf8", "no UTF-8", 5)], error)
    with pytest.raises(type(error)):
        loop.run()
    assert [item.body["re"] for item in items if isinstance(item, Message) and "re" in item.body] == [1, 2, 3]
    before = len(items)
    loop.fail("it broke", code)
    replies = [item for item in items[before:] if isinstance(item, Message) and "re" in item.body]
    assert [(item.req_id, item.body["re"], item.body["code"]) for item in replies] == [
        (tag, line, code) for tag, line in ((7, 4), (8, 5), (9, 6), (5, 7))
    ]
    assert terminal_of(items, 1) == FAILED


@pytest.mark.parametrize("ends", [True, False])
def test_lines_for_which_there_is_no_room_yet_are_answered_too(ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were written before the fault; whoever reads them waits for room."""
    monkeypatch.setattr(loop_module, "QUIET_SECONDS", 1.0)  # a busy machine may keep the other thread waiting
    inbox = Inbox(room=1)
    items, loop = looping([Line(1, "REQ 4 PING")], OSError(), inbox)

    def read() -> None:
        for number in range(2, 200):
            inbox.put_lines([Line(number, "REQ 4 PING")])
        if ends:
            inbox.put(News.END_OF_INPUT)

    reader = threading.Thread(target=read)
    reader.start()
    loop.fail("it broke", "internal")
    reader.join(10.0)
    assert [item.body["re"] for item in items if isinstance(item, Message)] == [*range(1, 200)]


class Endless(Inbox):
    """Another line whenever it is polled, and at the tenth time perhaps something else too."""

    def __init__(self, tenth: Callable[[Inbox], None] = lambda inbox: None) -> None:
        super().__init__()
        self.polls = 0
        self._tenth = tenth

    def poll(self, wait: bool, timeout: float | None = None) -> bool:
        self.polls += 1
        self.lines.append(Line(self.polls, "PING"))
        if self.polls == 10:
            self._tenth(self)
        return True


def stop(inbox: Inbox) -> None:
    inbox.stop = 15


def leave(inbox: Inbox) -> None:
    inbox.gone = Gone(None)


@pytest.mark.parametrize("tenth", [stop, leave, None])
def test_input_without_an_end_is_not_answered_for_ever(tenth: Callable[[Inbox], None] | None) -> None:
    inbox = Endless(tenth) if tenth else Endless()
    items, loop = looping([], OSError(), inbox)
    loop._clock = (tick * (0.01 if tenth else 0.08) for tick in itertools.count()).__next__
    loop.fail("it broke", "internal")
    replies = [item.body["re"] for item in items if isinstance(item, Message)]
    assert replies == [*range(1, inbox.polls + 1)] and inbox.polls == (10 if tenth else pytest.approx(11, abs=3))


def test_a_reader_that_takes_nothing_ends_the_answers_too() -> None:
    inbox = Endless()
    items, loop = looping([], OSError(), inbox)
    loop._outbox = SimpleNamespace(put=items.extend, full=True)  # type: ignore[assignment]
    loop.fail("it broke", "internal")
    assert inbox.polls == 1


def test_lines_behind_a_quit_stay_unread() -> None:
    items, loop = looping([Line(1, "QUIT"), Line(2, "PING")], OSError())
    loop.run()
    loop.fail("it broke", "internal")
    assert [item.body for item in items if isinstance(item, Message)] == [{"re": 1, "ok": True}]


def test_a_line_whose_reply_was_made_is_not_answered_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Driver(slots=4)
    monkeypatch.setattr(one.session.lifecycle, "settle", lambda now: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        one.send("REQ 3 PING a")
    monkeypatch.undo()
    one.fail()
    assert [item.body for item in one.items if isinstance(item, Message)] == [{"re": 1, "ok": True, "pong": "a"}]


def test_the_report_shows_what_can_be_shown() -> None:
    one = Driver(slots=2)
    one.send(FOUR[0])
    one.session.lifecycle.admission.slots.owners[1] = 99
    text = report(ValueError("planted"), CommandLog(), one.session)
    assert "slot=0 epoch=1 owner=1" in text
    assert "slot=1 cannot be shown: KeyError: 99" in text


def test_commands_are_kept_without_their_prompts_predictions_and_grammars() -> None:
    commands = CommandLog()
    commands.note(Line(3, 'REQ 1 START ids:1,2,3 9 grammar={"regex":"secret"} predict=5,6 seed=1'))
    expected = "3: REQ 1 START ids:<3 tokens> 9 grammar=<18 characters> predict=<3 characters> seed=1"
    assert list(commands) == [expected]
