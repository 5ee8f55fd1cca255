"""Floods of lines: they keep nobody from a step, the daemon from no signal, and the memory from nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from driver import limits, terminal_of
from paceline.daemon.crash import CommandLog
from paceline.daemon.engine import DeviceLost
from paceline.daemon.inbox import Gone, Inbox, News, Stop
from paceline.daemon.limits import Limits
from paceline.daemon.loop import LINES_PER_STEP, MOST_MOVES, Loop
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.outbox import Outbox
from paceline.daemon.session import Session
from paceline.protocol import CANCELLED, DONE, FAILED, Command, Frame, Item, Line, Message, parse


class Lost(NullEngine):
    """A device that is lost when a slot is to be seated."""

    def seat(self, slot: int, ids: Sequence[int], state: int | None) -> None:
        raise DeviceLost("gone")


def played(
    lines: Iterable[str],
    bounds: Limits,
    before: Callable[[int, Session, Inbox], None] = lambda number, *_: None,
    kind: type[NullEngine] = NullEngine,
) -> list[Item]:
    """What a loop makes of lines that are all there; `before` is called before each is applied."""
    engine, inbox, items = kind(bounds.slots, bounds.context), Inbox(room=1 << 40), list[Item]()
    session = Session(engine.info, bounds, lambda: 1)

    def parsed(line: Line) -> Command:
        before(line.number, session, inbox)
        return parse(line.text)

    def note(put: Iterable[Item]) -> bytes:
        items.extend(put)
        return b""

    inbox.put_lines([Line(number, text) for number, text in enumerate(lines, 1)])
    inbox.put(News.END_OF_INPUT)
    loop = Loop(session, engine, inbox, Outbox(note, lambda: None), lambda: 0.0, CommandLog(), parse=parsed)
    try:
        loop.run()
    except DeviceLost as error:
        loop.fail(str(error), "device_lost")
    return items


def replies(items: Iterable[Item]) -> int:
    return sum(isinstance(item, Message) and "re" in item.body for item in items)


def test_starts_that_are_cancelled_before_a_step_leave_no_moves_behind() -> None:
    prompt = "ids:" + ",".join(map(str, range(1, 100)))
    waiting = []
    played(
        [f"REQ 1 START {prompt} 1", "WAIT", *[f"REQ 2 START {prompt} 1", "CANCEL 2"] * 300],
        limits(),
        lambda _, session, inbox: waiting.append(len(session.lifecycle.cache.moves)),
    )
    assert len(waiting) == 602
    assert 1 < max(waiting) <= MOST_MOVES + 2


def test_a_device_that_is_lost_between_two_lines_takes_no_reply_along() -> None:
    prompt = "ids:" + ",".join(map(str, range(1, 100)))
    pairs = [line for req_id in range(2, 202) for line in (f"REQ {req_id} START {prompt} 1", f"CANCEL {req_id}")]
    items = played([f"REQ 1 START {prompt} 1", "WAIT", *pairs], limits(), kind=Lost)
    answers = [item for item in items if isinstance(item, Message) and "re" in item.body]
    assert [item.body["re"] for item in answers] == list(range(1, 403))
    started = [item.req_id for item in answers if item.body["ok"] and "slot" in item.body]
    assert 30 < len(started) < 40
    assert [terminal_of(items, req_id) for req_id in started] == [DONE] + [CANCELLED] * (len(started) - 2) + [FAILED]


def test_a_signal_is_noticed_between_two_lines() -> None:
    for news in (Stop(15), Gone(None)):

        def leave(number: int, _: Session, inbox: Inbox, news: Stop | Gone = news) -> None:
            if number == 20:
                inbox.put(news)

        items = played(["PING"] * 100, limits(), leave)
        assert replies(items) == 20


def test_steps_by_hand_keep_nobody_from_the_others() -> None:
    """Request 1 has a grant of a hundred; 2 is parked, and its probes are asked for all at once."""
    many = 2 * LINES_PER_STEP + 100
    starts = ["REQ 1 START ids:1,2,3 100", "REQ 2 START ids:4,5 100 1", "WAIT step=3"]
    items = played([*starts, *["SCHED_BATCH_PROBE"] * many], limits())
    in_a_row, most = 0, 0
    for item in items:
        if isinstance(item, Frame) and item.req_id == 1:
            in_a_row = 0
        elif isinstance(item, Message) and "mismatches" in item.body:
            in_a_row += 1
        most = max(most, in_a_row)
    assert replies(items) == many + 3
    assert LINES_PER_STEP - 3 <= most <= LINES_PER_STEP


def test_a_burst_right_after_a_check_is_checked_too() -> None:
    """What it leaves is given back once that is due, though nothing comes any more."""
    inbox, events = Inbox(room=1 << 40), list[str]()
    engine = NullEngine(1, 100)
    session = Session(engine.info, limits(slots=1, context=100), lambda: 1)
    seconds = iter(range(10**6))

    def give_back() -> None:
        events.append("given back")
        if len(events) == 1:  # between this and the next: a line
            inbox.put_lines([Line(1, "PING")])
        else:
            inbox.put(News.END_OF_INPUT)

    def note(put: Iterable[Item]) -> bytes:
        events.extend("reply" for item in put if isinstance(item, Message) and "re" in item.body)
        return b""

    outbox = Outbox(note, lambda: None)
    Loop(session, engine, inbox, outbox, lambda: next(seconds) / 16, CommandLog(), give_back=give_back).run()
    assert events == ["given back", "reply", "given back"]


class NoRoom(NullEngine):
    """A core that has no memory for a move."""

    def copy_page(self, source: int, target: int) -> None:
        raise MemoryError


def test_a_move_that_fails_is_no_refusal_of_the_line_that_wanted_it(tmp_path: Path) -> None:
    prompt = "ids:" + ",".join(map(str, range(80)))
    lines = [f"REQ 1 START {prompt} 20 8", "WAIT", "SLOT 0 SNAPSHOT a", f"REQ 2 START {prompt} 6 6"]
    with pytest.raises(MemoryError):
        played([*lines, f"SAVE a {tmp_path / 'a'}"], limits(slots=2, context=200), kind=NoRoom)
    assert not (tmp_path / "a").exists()


def test_a_line_that_memory_is_too_short_for_is_refused_alone() -> None:
    def before(number: int, *_: object) -> None:
        if number == 2:
            raise MemoryError

    lines = ["REQ 1 START ids:1,2,3 5", "REQ 2 START ids:1,2,3 5", "PING"]
    items = played(lines, limits(slots=2, context=100), before)
    answers = {item.body["re"]: item.body for item in items if isinstance(item, Message) and "re" in item.body}
    assert [answers[line]["ok"] for line in (1, 2, 3)] == [True, False, True]
    assert answers[2]["code"] == "kv_budget"
    assert terminal_of(items, 1) == DONE
