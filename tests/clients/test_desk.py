"""The desk and the log, by properties: whatever order things come in, everybody gets what is theirs."""

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.desk import Body, Desk
from paceline.clients.errors import DaemonGone, Refused
from paceline.clients.process import KEPT_LINES, listen
from paceline.protocol import DONE, Frame, Item, Message


class Basket:
    def __init__(self) -> None:
        self.items: list[Item | DaemonGone] = []

    def deliver(self, item: Item | DaemonGone) -> None:
        self.items.append(item)


STEPS = st.lists(st.tuples(st.sampled_from(["line", "reply", "refusal", "token", "event", "end"]), st.integers(1, 3)))


@given(STEPS)
def test_everybody_gets_what_is_theirs_until_all_is_over(steps: Sequence[tuple[str, int]]) -> None:
    events: list[Body | DaemonGone] = []
    ready: Future[Body] = Future()
    desk: Desk = Desk(ready, events.append)
    baskets: dict[int, Basket] = {}
    expected: dict[int, list[Item | DaemonGone]] = {}
    closed: list[tuple[Basket, list[Item | DaemonGone]]] = []
    replies: list[Future[Body]] = []
    starting: deque[tuple[int, Basket]] = deque()
    answered = strays = 0
    for kind, req_id in steps:
        item: Item = Frame(req_id, 7) if kind == "token" else Message(req_id, {"event": "logprobs"})
        if kind == "line":
            replies.append(Future())
            starting.append((req_id, Basket()))
            desk.line(replies[-1], req_id, starting[-1][1].deliver)
        elif kind in ("reply", "refusal"):
            if answered < len(replies):
                answered += 1
                number, basket = starting.popleft()
                ok = kind == "reply" and number not in baskets  # a daemon refuses an id that is live
                body: dict[str, Any] = {"re": answered, "ok": ok, "code": "stale", "error": "no"}
                desk.take(Message(number, body))
                assert sum(reply.done() for reply in replies) == answered
                assert isinstance(replies[answered - 1].exception(), Refused) is not ok
                if ok:
                    baskets[number], expected[number] = basket, []
        elif kind == "end":
            desk.take(Frame(req_id, DONE))
            if req_id in baskets:
                closed.append((baskets.pop(req_id), [*expected.pop(req_id), Frame(req_id, DONE)]))
        else:
            desk.take(item)
            if req_id in baskets:
                expected[req_id].append(item)
            else:
                strays += kind == "event"
        assert desk.free_id() not in {*baskets, *(number for number, _ in starting)}
    gone = DaemonGone("gone")
    desk.give_up(gone)
    assert all(basket.items == items for basket, items in closed)
    assert all(basket.items == [*expected[req_id], gone] for req_id, basket in baskets.items())
    assert all(reply.exception() is gone for reply in replies[answered:])
    assert all(basket.items == [] for _, basket in starting)
    assert ready.exception() is gone and len(events) == strays + 1 and events[-1] is gone
    with pytest.raises(DaemonGone):
        desk.line(Future())


@given(st.integers(0, 3), st.integers(0, 5))
def test_a_reply_to_another_line_makes_no_sense(lines: int, answered: int) -> None:
    desk: Desk = Desk(Future(), print)
    for _ in range(lines):
        desk.line(Future())
    if answered == 1 and lines:
        desk.take(Message(0, {"re": 1, "ok": True}))
    else:
        with pytest.raises(ValueError, match=f"a reply to line {answered} came, expected one to"):
            desk.take(Message(0, {"re": answered, "ok": True}))


@given(st.lists(st.text("ab\r\n", max_size=6).map(str.encode)))
def test_a_log_has_the_same_lines_however_it_is_cut(pieces: list[bytes]) -> None:
    lines: list[str] = []
    kept: deque[str] = deque(maxlen=KEPT_LINES)

    async def read() -> None:
        log = asyncio.StreamReader()
        reading = asyncio.create_task(listen(log, lines.append, kept.append))
        for piece in pieces:
            log.feed_data(piece)
            await asyncio.sleep(0)
        log.feed_eof()
        await reading

    asyncio.run(read())
    whole = b"".join(pieces).decode()
    parts = whole.removesuffix("\n").split("\n") if whole else []
    assert lines == [line.rstrip("\r").rpartition("\r")[2] for line in parts]
    assert list(kept) == lines[-KEPT_LINES:]


@pytest.mark.parametrize("code", ["device_lost", "internal"])
def test_what_a_daemon_that_ends_did_not_begin_ends_with_it(code: str) -> None:
    desk: Desk = Desk(Future(), lambda body: None)
    replies: list[Future[Body]] = [Future(), Future()]
    for number, reply in enumerate(replies, 1):
        desk.line(reply, number, lambda item: None)
    for number in (1, 2):
        desk.take(Message(number, {"re": number, "ok": False, "code": code, "error": "it broke"}))
    assert not any(reply.done() for reply in replies)
    gone = DaemonGone("the daemon has ended: its last words")
    desk.give_up(gone)
    assert [reply.exception() for reply in replies] == [gone, gone]
