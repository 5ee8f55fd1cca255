"""An unexpected error in the session: everybody has an end all the same, and the report is made."""

from __future__ import annotations

from typing import Any

import pytest
from driver import Driver, events_of, signals_of, terminal_of
from paceline.daemon.crash import CommandLog, report
from paceline.daemon.requests import Request
from paceline.protocol import CANCELLED, DONE, FAILED, Item, Message

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
        {"re": 2, "ok": True, "step": 3}
    ]
    assert not one.session.holding


def test_the_report_shows_what_can_be_shown() -> None:
    one = Driver(slots=2)
    one.send(FOUR[0])
    one.session.lifecycle.admission.slots.owners[1] = 99
    text = report(ValueError("planted"), CommandLog(), one.session)
    assert "slot=0 epoch=1 owner=1" in text
    assert "slot=1 cannot be shown: KeyError: 99" in text
