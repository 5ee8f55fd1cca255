"""Rows that equal requests share, on the timeline: drawn once, under the name of whoever owns them."""

from __future__ import annotations

import pytest
from paceline.daemon.timeline import Timeline
from paceline.protocol import Message
from traces import Event, begun, check_nesting, check_rows, rows
from watched import Watched


def test_who_shares_another_ones_row_is_not_drawn_as_waiting() -> None:
    timeline = Timeline("null", 2, 0, 0.0)
    reply = {"re": 1, "ok": True, "slot": None, "epoch": None, "state": "decode", "prompt_tokens": 2, "with": 4}
    end = {"event": "end", "req": 5, "reason": "length", "tokens": 2}
    assert timeline.saw([Message(5, reply), Message(0, {"event": "drained"})], 1.0) == []
    assert [event["ph"] for event in timeline.saw([Message(5, end)], 2.0)] == ["i"]


def test_who_takes_over_a_row_is_drawn_from_then_on() -> None:
    driver = Watched(slots=1, coalesce=True, auto=True)
    driver.watch()
    driver.send("REQ 1 START ids:1,2 9")
    driver.step()
    driver.send("REQ 2 START ids:1,2 9")
    driver.step()
    driver.send("CANCEL 1")
    driver.run()
    events = driver.closed()
    check_nesting(events)
    check_rows(events)
    assert [event["name"] for event in begun(events, "request")] == ["req 1", "req 2"]
    assert [row["args"]["req"] for row in rows(events)] == [1, 1, *[2] * 7]


def waits(events: list[Event]) -> list[tuple[str, int]]:
    return [(event["ph"], event["args"]["req"]) for event in events if event.get("cat") == "queue"]


@pytest.mark.parametrize("late", [False, True])
def test_a_wait_is_the_next_ones_when_its_owner_is_cancelled(late: bool) -> None:
    """Whether the trace began before or after the requests came."""
    driver = Watched(slots=1, coalesce=True, auto=True)
    if not late:
        driver.watch()
    driver.send("REQ 1 START ids:1 9")
    for req_id in (2, 3, 4, 5):
        driver.send(f"REQ {req_id} START ids:1,2 3")
    if late:
        driver.watch()
    for req_id in (4, 2, 3):
        driver.send(f"CANCEL {req_id}")
    driver.run()
    events = driver.closed()
    check_nesting(events)
    assert waits(events) == [("b", 2), ("e", 2), ("b", 3), ("e", 3), ("b", 5), ("e", 5)]
    numbers = [event["id"] for event in events if event["ph"] == "b"]
    assert len(set(numbers)) == 3
    assert [event["args"]["req"] for event in begun(events, "request")] == [1, 5]
    depths = [event["args"]["queue"] for event in events if event["ph"] == "C" and event["name"] == "queue"]
    assert depths == ([0] if late else [1, 0])


def test_a_row_that_ends_leaves_nobody_waiting() -> None:
    driver = Watched(slots=1, coalesce=True, auto=True)
    driver.watch()
    for req_id in (1, 2, 3):
        driver.send(f"REQ {req_id} START ids:1,2 3")
    driver.run()
    driver.send("REQ 3 START ids:1,2 3")
    driver.run()
    assert waits(driver.closed()) == []
