"""Who waits and who passes whom: priority, size, and the bound on being passed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from paceline.daemon.requests import Request, new_request
from paceline.daemon.waiting import PASSES, Waiting
from paceline.protocol import Ids, Options, Start

MOST = 9
"""Larger ones fit only when a snapshot is freed."""


def request(req_id: int, priority: int = 0, size: int = 1) -> Request:
    prompt = tuple(range(size))
    return new_request(Start(Ids(prompt), 1, options=Options(priority=priority), req_id=req_id), prompt, (), 0.0)


def take(waiting: Waiting, room: int) -> int | None:
    chosen = waiting.next(lambda one: len(one.prompt) <= room, lambda one: len(one.prompt) <= MOST)
    if chosen is None:
        return None
    waiting.pass_over(chosen)
    return chosen.req_id


def test_first_come_first_served() -> None:
    waiting = Waiting()
    for req_id in (3, 1, 2):
        waiting.add(request(req_id))
    assert (len(waiting), [one.req_id for one in waiting]) == (3, [3, 1, 2])
    assert [take(waiting, 1) for _ in range(4)] == [3, 1, 2, None]


def test_the_highest_priority_is_next() -> None:
    waiting = Waiting()
    for req_id, priority in ((1, 0), (2, 5), (3, 5), (4, 9)):
        waiting.add(request(req_id, priority))
    assert [take(waiting, 1) for _ in range(4)] == [4, 2, 3, 1]


def test_a_small_one_passes_a_big_one_so_often_and_no_more() -> None:
    waiting = Waiting()
    waiting.add(request(1, size=9))
    for req_id in range(2, PASSES + 9):
        waiting.add(request(req_id))
    assert waiting.prompt_tokens == 9 + PASSES + 7
    passed = [take(waiting, 5) for _ in range(PASSES + 5)]
    assert passed == [*range(2, PASSES + 2), *[None] * 5]
    assert take(waiting, 9) == 1


def test_one_that_only_snapshots_keep_out_keeps_nobody_out() -> None:
    waiting = Waiting()
    waiting.add(request(1, size=MOST + 1))
    for req_id in range(2, 2 * PASSES):
        waiting.add(request(req_id))
        assert take(waiting, 5) == req_id
    waiting.add(request(99, size=MOST))
    assert take(waiting, 5) is None
    assert take(waiting, MOST) == 99


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=60), st.integers(0, 59))
def test_nobody_starves(later: list[tuple[int, int]], index: int) -> None:
    """One that waits among newcomers for ever is passed PASSES times at most, whatever they are."""
    waiting = Waiting()
    waiting.add(request(1, 0, 5))
    admitted = 0
    for number in range(10 * PASSES):
        priority, size = later[(index + number) % len(later)]
        waiting.add(request(number + 2, priority, size))
        req_id = take(waiting, 9 if number % 3 else 4)
        if req_id == 1:
            break
        admitted += req_id is not None
    else:
        raise AssertionError("it was never admitted")
    assert admitted <= PASSES
    assert waiting.prompt_tokens == sum(len(one.prompt) for one in waiting)
