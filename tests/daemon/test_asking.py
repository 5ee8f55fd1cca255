"""How many tokens an engine is asked to draft, against trying all numbers of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, product
from operator import mul, truediv

import pytest
from driver import limits
from hypothesis import given
from hypothesis import strategies as st
from paceline.daemon.continuing import Continuing
from paceline.daemon.drafts import ASKED_AGAIN, NEARLY_SURE, Drafts
from paceline.daemon.grants import Grants
from paceline.daemon.guesses import PROPOSED, TRIALS, Guesser
from paceline.daemon.lookup import Lookup
from paceline.daemon.requests import Request, State, new_request
from paceline.daemon.scheduler import Scheduler
from paceline.protocol import Ids, Start

SCHEDULER = Scheduler(512, 512)
WAITS = Continuing(0.0, SCHEDULER, Grants(limits(), {}, SCHEDULER), ())
HISTORIES = st.lists(st.integers(0, 8), max_size=12)
ROWS = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 12), st.integers(1, 12), st.integers(1, 12), HISTORIES),
    min_size=1,
    max_size=3,
)


def decoding(req_id: int, remaining: int, quantum: int, grant: int, turn: int, history: list[int]) -> Request:
    """Of each proposal of eight tokens so far, so many of the first were right."""
    request = new_request(Start(Ids((1,)), remaining + 1, quantum, req_id=req_id), (1,), (), 0.0)
    request.state, request.slot, request.epoch, request.pending = State.DECODE, req_id, 1, 5
    request.output, request.guessed = [5], 1
    request.grant, request.turn = min(grant, remaining), min(turn, quantum)
    request.guesser = guesser = Guesser((1, 5))
    for right in history:
        guesser.propose(range(100, 108))
        for n in range(min(right + 1, 8)):
            guesser.add(100 + n if n < right else 7)
    guesser._lookup = Lookup(())  # which finds nothing
    return request


def promised(history: list[int]) -> list[float]:
    right = [chance * TRIALS + sum(proven > n for proven in history) for n, chance in enumerate(PROPOSED)]
    return [*accumulate(map(truediv, right, [TRIALS + sum(n <= proven for proven in history) for n in range(8)]), mul)]


@given(ROWS, st.floats(0, 0.5), st.floats(0.001, 0.5), st.integers(1, 10), st.sampled_from([1, 5, 9, 512]))
def test_the_next_step_gives_the_most_tokens_for_its_cost(
    rows: list[tuple[int, int, int, int, list[int]]], column_cost: float, draft_cost: float, most: int, step_tokens: int
) -> None:
    """No other numbers of tokens for each row would make it give more."""
    drafts = Drafts(most, step_tokens, column_cost, draft_cost)
    requests = [decoding(req_id, *fields) for req_id, fields in enumerate(rows)]
    going = [request for request in requests if request.remaining > 1]
    bounds, chances = {}, {}
    for request, (remaining, quantum, *_, history) in zip(requests, rows, strict=True):
        spent, over = request.grant == 1, request.turn == 1
        grant = min(quantum, remaining - 1) if spent else request.grant - 1
        turn = quantum if over else request.turn - 1
        bounds[request.req_id] = max(0, min(most, 8, grant - 1, turn - 1))
        chances[request.req_id] = promised(history)

    def worth(asked: Sequence[int]) -> float:
        tokens = len(going) + sum(sum(chances[one.req_id][:count]) for one, count in zip(going, asked, strict=True))
        return tokens / (drafts._cost(len(going) + sum(asked)) + draft_cost * max(asked))

    choices = [*product(*(range(bounds[request.req_id] + 1) for request in going))]
    choices = [asked for asked in choices if not any(asked) or len(going) + sum(asked) <= step_tokens]
    if len(going) * column_cost > NEARLY_SURE * drafts._cost(len(going)):
        choices = choices[:1]
    found = {row.req_id: row.ahead for row in drafts.rows([(request, 1) for request in requests], frozenset(), WAITS)}
    assert all(not found[request.req_id] for request in requests if request not in going)
    if going:
        asked = tuple(found[request.req_id] for request in going)
        assert asked in choices
        assert worth(asked) == pytest.approx(max(map(worth, choices)))
        assert not any(asked) or worth(asked) > worth([0] * len(going))


def test_rows_that_draft_badly_cost_those_beside_them_nothing() -> None:
    good = decoding(1, 30, 30, 30, 30, [8] * 12)
    for cost in (0.1, 0.16):
        drafts = Drafts(8, 512, cost, 0.05)
        (alone,) = asked_of(drafts, [good])
        asked = asked_of(drafts, [good, *(decoding(req_id, 30, 30, 30, 30, [0] * 40) for req_id in (2, 3, 4))])
        assert alone >= asked[0] > 2
        assert asked[1:] == [0, 0, 0]


def test_what_is_looked_up_anyway_is_not_asked_for() -> None:
    request = decoding(1, 30, 30, 30, 30, [])
    drafts = Drafts(8, 512, 0.1, 0.05)
    assert asked_of(drafts, [request])[0] > 0
    circles = request.guesser = Guesser([1, 2, 3, 4, 5] * 12)
    assert next(circles.looked_up()) > circles.promises(1)[0]
    assert asked_of(drafts, [request]) == [0]
    assert asked_of(drafts, [request, decoding(2, 30, 30, 30, 30, [])])[1] > 0


def test_who_was_given_up_is_asked_again() -> None:
    request = decoding(1, 300, 300, 300, 300, [0] * 40)
    for count in range(1, 40):
        request.output, request.guessed = [5] * count, count
        assert asked_of(Drafts(8, 512, 0.16, 0.1), [request]) == [int(count % ASKED_AGAIN == 0)]


def asked_of(drafts: Drafts, requests: Sequence[Request]) -> list[int]:
    return [row.ahead for row in drafts.rows([(request, 1) for request in requests], frozenset(), WAITS)]


@pytest.mark.parametrize(
    ("remaining", "quantum", "grant", "turn", "asked"),
    [
        (30, 12, 12, 12, 8),
        (30, 12, 5, 12, 3),
        (30, 12, 12, 5, 3),
        (30, 12, 1, 12, 8),  # a grant that is spent in this step, and the next one
        (5, 12, 1, 12, 3),
        (30, 4, 1, 4, 2),
        (30, 12, 12, 1, 8),  # a turn that is over with this step, and the next one
        (30, 4, 12, 1, 3),
        (2, 12, 2, 12, 0),
        (1, 12, 1, 12, 0),
    ],
)
def test_no_more_is_asked_for_than_the_next_step_can_try(
    remaining: int, quantum: int, grant: int, turn: int, asked: int
) -> None:
    request = decoding(1, remaining, quantum, grant, turn, [])
    assert asked_of(Drafts(64, 512, 0.0, 1e-6), [request]) == [asked]


def test_who_ends_in_this_step_is_not_in_the_next_one() -> None:
    going, ending = decoding(1, 30, 30, 30, 30, []), decoding(2, 1, 1, 1, 1, [])
    for hundredths in range(1, 50):
        drafts = Drafts(8, 512, hundredths / 100, 0.02)
        assert asked_of(drafts, [going, ending]) == [*asked_of(drafts, [going]), 0]


def test_where_nobody_goes_on_nothing_is_asked_for() -> None:
    """Whatever a column costs: as much as a step of one where nothing is vectorized."""
    ending = [decoding(req_id, 1, 1, 1, 1, []) for req_id in (1, 2)]
    assert asked_of(Drafts(8, 512, 1.0, 0.02), ending) == [0, 0]


def test_nothing_is_asked_for_that_the_next_step_would_not_try() -> None:
    """Though here it would pay: no step of so many rows looks at guesses."""
    rows = [decoding(req_id, 30, 30, 30, 30, [8] * 12) for req_id in range(16)]
    assert asked_of(Drafts(1, 512, 0.5, 0.001), rows) == [0] * 16
    assert asked_of(Drafts(1, 512, 0.4, 0.001), rows[:8]) == [1] * 8
