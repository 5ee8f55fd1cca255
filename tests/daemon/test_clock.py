"""The clock is an argument, and may go anywhere: backwards, nowhere, years ahead. No reply breaks, no number lies."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from driver import Driver, tokens_of
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.protocol import Message

YEAR = 365.25 * 86400
MOVES = st.sampled_from([0.0, 1e-9, 1e-3, 1.0, -1e-3, -1.0, -YEAR, YEAR, 50 * YEAR])
LINES = (
    *("REQ 1 SLOT 0 START ids:1,2 6 2", "STATS", "REQ 2 START ids:3 5", "REQ 1 CONTINUE 2", "SCHED_BATCH_PROBE"),
    *("SCHED_BATCH_TARGET_STEP", "REQ 3 START ids:4,5,6 4", "CANCEL 2", "STATS", "SCHED_DRAIN", "WAIT", "STATS"),
)


class Jumping(Driver):
    def __init__(self, moves: list[float]) -> None:
        self._now = 1e6
        self._moves = iter(moves * 1000)
        super().__init__(slots=2)

    def clock(self) -> float:
        self._now += next(self._moves)
        return self._now


def numbers(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if isinstance(value, list | tuple):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def spoken(driver: Driver) -> list[dict[str, Any]]:
    for line in LINES:
        driver.send(line)
        while driver.session.holding:
            driver.step()
        driver.step()
    driver.end()
    return [item.body for item in driver.items if isinstance(item, Message)]


@settings(deadline=None, max_examples=60)
@given(moves=st.lists(MOVES, min_size=1, max_size=40))
def test_a_clock_that_jumps(moves: list[float]) -> None:
    driver, steady = Jumping(moves), Driver(slots=2)
    bodies, expected = spoken(driver), spoken(steady)
    assert [sorted(body) for body in bodies] == [sorted(body) for body in expected]
    for body in bodies:
        assert all(isfinite(number) and number >= 0 for number in numbers(body)), json.dumps(body)
    for req_id in (1, 2, 3):
        assert tokens_of(driver.items, req_id) == tokens_of(steady.items, req_id)
