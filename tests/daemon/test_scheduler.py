"""Turns: who is in a step, and the promise between two turns of one request."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from paceline.daemon.leaders import choose
from paceline.daemon.requests import Request, State, new_request
from paceline.daemon.scheduler import Scheduler
from paceline.protocol import Ids, Start


def request(req_id: int, prompt: int = 1, quantum: int = 2, state: State = State.DECODE) -> Request:
    made = new_request(
        Start(Ids(tuple(range(prompt))), 1000, quantum, req_id=req_id), tuple(range(prompt)), (), int, 0.0
    )
    made.state = state
    return made


def prefill(req_id: int, prompt: int = 100, quantum: int = 2) -> Request:
    return request(req_id, prompt, quantum, State.PREFILL)


def feed(shares: list[tuple[Request, int]]) -> None:
    for one, count in shares:
        if one.state is State.PREFILL:
            one.position += count
            if one.position < len(one.prompt):
                continue
            one.state = State.DECODE
        one.turn -= 1


@dataclass
class Table:
    """A scheduler with requests that do as they are told; what a session does, and no more."""

    seats: int
    scheduler: Scheduler = field(default_factory=lambda: Scheduler(step_tokens=64, prefill_tokens=512))

    def add(self, *requests: Request) -> None:
        for one in requests:
            self.scheduler.enter(one)

    def step(self) -> dict[int, int]:
        shares = self.scheduler.step(self.seats)
        feed(shares)
        return {one.req_id: count for one, count in shares}

    def steps(self, count: int) -> list[list[int]]:
        return [sorted(self.step()) for _ in range(count)]


def test_while_there_are_seats_everyone_is_in_every_step() -> None:
    table = Table(seats=3)
    table.add(request(1), request(2), request(3))
    assert table.steps(5) == [[1, 2, 3]] * 5


def test_turns_go_round_in_the_order_of_arrival() -> None:
    table = Table(seats=2)
    table.add(*map(request, (1, 2, 3, 4, 5)))
    assert table.steps(10) == [[1, 2]] * 2 + [[3, 4]] * 2 + [[1, 5]] * 2 + [[2, 3]] * 2 + [[4, 5]] * 2


def test_one_seat_goes_round_too() -> None:
    table = Table(seats=1)
    table.add(*map(request, (1, 2, 3)))
    assert table.steps(6) == [[1], [1], [2], [2], [3], [3]]


def test_a_prefill_that_waits_takes_a_seat_and_the_last_comer_goes_on_later() -> None:
    table = Table(seats=2)
    table.add(request(1, quantum=3), request(2, quantum=3))
    table.step()
    table.add(request(3), prefill(4, prompt=100))
    assert table.step() == {1: 1, 4: 63}
    assert table.scheduler.paused[0].req_id == 2
    assert table.step() == {1: 1, 4: 37}  # its prompt ends, so does the turn of 1
    assert table.steps(2) == [[2, 4], [2, 3]]  # 2 goes on, before 3 begins; 4's turn of two tokens is over
    assert table.step() == {3: 1, 1: 1}


def test_one_seat_alternates_between_a_prefill_and_a_decoding_request() -> None:
    table = Table(seats=1)
    table.add(request(1, quantum=9), prefill(2, prompt=1100))
    assert [table.step() for _ in range(6)] == [{2: 512}, {1: 1}, {2: 512}, {1: 1}, {2: 76}, {1: 1}]
    assert [one.req_id for one in table.scheduler.paused] == [2]


def test_with_one_seat_only_the_head_of_the_line_begins_to_decode() -> None:
    table = Table(seats=1)
    table.add(prefill(1, prompt=1100), prefill(2, prompt=1100), request(3))
    assert table.steps(2) == [[1], [1]]
    assert not table.scheduler.paused
    assert [one.req_id for one in table.scheduler.waiting] == [2, 3]


def test_a_paused_prefill_goes_on_before_a_new_one_begins() -> None:
    table = Table(seats=3)
    table.add(prefill(1, 5000), prefill(2, 5000), prefill(3, 5000))
    table.step()
    table.seats = 1
    table.step()
    assert [one.req_id for one in table.scheduler.paused] == [3, 2]
    table.add(prefill(4, 5000))
    table.scheduler.leave(table.scheduler.seated[0])
    assert table.steps(1) == [[2]]


def test_fewer_seats_pause_the_last_comers_and_more_seats_resume_the_first() -> None:
    table = Table(seats=4)
    table.add(*(request(req_id, quantum=100) for req_id in (1, 2, 3, 4)))
    table.step()
    table.seats = 2
    assert table.steps(1) == [[1, 2]]
    table.add(request(5))
    table.seats = 3
    assert table.steps(1) == [[1, 2, 3]]
    table.seats = 1
    assert table.steps(1) == [[1]]


def test_fewer_seats_keep_one_prefill() -> None:
    table = Table(seats=4)
    table.add(request(1, quantum=100), request(2, quantum=100), prefill(3, 9000), prefill(4, 9000))
    table.step()
    table.seats = 2
    assert table.steps(1) == [[1, 3]]


def test_the_first_prefill_is_sure_of_half_and_what_is_over_goes_to_those_who_need_least() -> None:
    table = Table(seats=4)
    table.add(prefill(1, 1000), prefill(2, 10), prefill(3, 400))
    assert table.step() == {1: 256, 2: 10, 3: 246}
    assert table.step() == {1: 32, 2: 1, 3: 31}
    table.add(request(4))
    assert table.step() == {1: 31, 2: 1, 4: 1, 3: 31}


def test_equal_prefills_are_done_one_after_the_other() -> None:
    table = Table(seats=4)
    table.add(prefill(1, 1000), prefill(2, 1000), prefill(3, 1000))
    assert table.step() == {1: 510, 2: 1, 3: 1}
    assert table.step() == {1: 490, 2: 21, 3: 1}


def test_a_long_prompt_keeps_no_short_one_waiting() -> None:
    table = Table(seats=4)
    table.add(request(1, quantum=1000), prefill(2, 20_000))
    table.step()
    table.add(short := prefill(3, 100))
    for _ in range(4):
        table.step()
    assert short.state is State.DECODE


def test_a_prefill_gets_a_token_even_beyond_the_budget() -> None:
    table = Table(4, Scheduler(step_tokens=2, prefill_tokens=2))
    table.add(request(1), request(2), prefill(3), prefill(4))
    assert table.step() == {1: 1, 2: 1, 3: 1, 4: 1}


def test_leaving_is_possible_from_every_place_and_only_when_due() -> None:
    scheduler = Scheduler(64, 512)
    table = Table(2, scheduler)
    requests = [request(req_id) for req_id in (1, 2, 3, 4)]
    table.add(*requests)
    table.step()
    table.add(prefill(5))
    table.step()
    for place in (scheduler.paused, scheduler.waiting, scheduler.seated):
        while place:
            scheduler.leave(place[0])
    assert scheduler.idle
    with pytest.raises(ValueError, match="request 1 is not due"):
        scheduler.leave(requests[0])


def waiting(step_tokens: int = 64, prefill_tokens: int = 512) -> Scheduler:
    return Scheduler(step_tokens, prefill_tokens, choose)


def test_the_half_that_the_first_is_sure_of_goes_to_who_computes_for_it() -> None:
    first, other, ahead = prefill(1), prefill(2, 50), prefill(3)
    other.prompt = tuple(range(100, 150))
    first.position, ahead.position = 10, 30
    table = Table(seats=3, scheduler=waiting(prefill_tokens=65))
    table.add(first, other, ahead)
    assert table.step() == {1: 1, 2: 32, 3: 32}


def test_a_short_prompt_that_waits_is_as_short_for_who_computes_for_it() -> None:
    stranger, long, short, decoder = prefill(1, 5000), prefill(2, 10_000), prefill(3, 104), request(4)
    stranger.prompt = tuple(range(20_000, 25_000))
    table = Table(seats=4, scheduler=waiting())
    table.add(stranger, long, short, decoder)
    assert table.step() == {1: 31, 2: 31, 3: 1, 4: 1}
    assert table.step() == {1: 31, 2: 31, 3: 1, 4: 1}
    assert long.position == 62
    assert table.step() == {1: 60, 2: 2, 3: 1, 4: 1}, "as far as the page that both have"


def test_nobody_waits_for_a_chunk_that_ends_within_the_page() -> None:
    ends, goes_on = prefill(1), prefill(2)
    ends.stops = [20]
    table = Table(seats=2, scheduler=waiting())
    table.add(ends, goes_on)
    assert table.step() == {1: 1, 2: 100}


def test_who_has_come_further_in_the_page_computes_it() -> None:
    behind, ahead = prefill(1), prefill(2)
    ahead.position = 20
    table = Table(seats=2, scheduler=waiting())
    table.add(behind, ahead)
    assert table.step() == {1: 1, 2: 80}


def test_who_waits_lends_its_share_as_far_as_the_texts_are_the_same() -> None:
    stranger, long, short = prefill(1, 3000), prefill(2, 3000), prefill(3, 250)
    stranger.prompt = tuple(range(20_000, 23_000))
    table = Table(seats=3, scheduler=waiting())
    table.add(stranger, long, short)
    assert table.step() == {1: 512 - 192 - 1, 2: 192, 3: 1}, "three of the pages of the short one"


def test_the_first_lends_its_half_for_many_pages() -> None:
    first, ahead, strangers = prefill(1, 2560), prefill(2, 2561), [prefill(n, 150) for n in (3, 4, 5)]
    ahead.position = 20
    for one in strangers:
        one.prompt = tuple(range(1000 * one.req_id, 1000 * one.req_id + 150))
    table = Table(seats=5, scheduler=waiting())
    table.add(first, ahead, *strangers)
    shares = table.step()
    assert shares[1] == 1 and shares[2] == 1 + (512 - 5 + 1) // 2


def test_a_turn_that_is_used_up_without_a_seat_is_over() -> None:
    """As by steps by hand: whoever is paused goes to the tail, too."""
    table = Table(seats=2)
    first, second, third = request(1, quantum=9), request(2, quantum=9), prefill(3, 10, quantum=9)
    table.add(first, second)
    assert table.steps(1) == [[1, 2]]
    table.add(third, request(4))
    assert table.steps(1) == [[1, 3]]
    assert table.scheduler.paused == [second]
    second.turn = 0
    table.scheduler.leave(first)
    assert table.steps(1) == [[3, 4]], "4 was before it in the line"
