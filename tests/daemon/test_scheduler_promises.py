"""Any arrivals, ends and numbers of seats: what holds at every step."""

from __future__ import annotations

from fairness import Fairness
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.daemon.requests import Request, State
from paceline.daemon.scheduler import Scheduler
from test_scheduler import Table, feed, request

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.integers(1, 200), st.integers(1, 6)),
        st.tuples(st.just("leave"), st.integers(0, 20), st.just(0)),
        st.tuples(st.just("seats"), st.integers(1, 5), st.just(0)),
        st.tuples(st.just("steps"), st.integers(1, 12), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=400, deadline=None)
@given(ACTIONS)
def test_every_promise_at_every_step(actions: list[tuple[str, int, int]]) -> None:
    table = Table(2, Scheduler(step_tokens=16, prefill_tokens=40))
    scheduler = table.scheduler
    watch = Watch(table)
    req_id = 0
    for action, number, quantum in actions:
        due = [*scheduler.seated, *scheduler.paused, *scheduler.waiting]
        if action == "enter":
            req_id += 1
            table.add(request(req_id, number, quantum, State.PREFILL))
        elif action == "leave" and due:
            scheduler.leave(due[number % len(due)])
        elif action == "seats":
            table.seats = number
        elif action == "steps":
            for _ in range(number):
                watch.step()
    watch.everyone_moves()


class Watch:
    """Steps a table and checks the essay's promises."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.fairness = Fairness()

    def step(self) -> list[int]:
        scheduler, seats = self.table.scheduler, self.table.seats
        due = [*scheduler.seated, *scheduler.paused, *scheduler.waiting]
        prefilling = any(one.state is State.PREFILL for one in due)
        self.fairness.before(scheduler)
        shares = scheduler.step(seats)
        assert all(one.turn == one.quantum for one in self.fairness.after(scheduler))
        seated = list(scheduler.seated)
        rows = dict(shares)
        assert len(rows) == len(shares)
        if seats > 1:
            assert set(rows) == set(seated)
            assert len(seated) == min(seats, len(due))
        else:
            assert len(rows) == bool(due)
            assert [one.state for one in seated].count(State.PREFILL) == prefilling
            assert [one.state for one in seated].count(State.DECODE) <= 1
        if prefilling:
            assert any(one.state is State.PREFILL for one in seated)
        self._check_tokens(rows)
        feed(shares)
        return [one.req_id for one in rows]

    def _check_tokens(self, rows: dict[Request, int]) -> None:
        decoders = [one for one in rows if one.state is State.DECODE]
        prefills = [one for one in rows if one.state is State.PREFILL]
        assert all(rows[one] == 1 for one in decoders)
        assert all(1 <= rows[one] <= len(one.prompt) - one.position for one in prefills)
        budget = 16 if decoders else 40
        assert sum(rows.values()) <= max(budget, len(rows))
        cut = [one for one in prefills if rows[one] < len(one.prompt) - one.position]
        if cut:
            assert sum(rows.values()) >= budget  # nothing of it is wasted
            more = [one for one in cut if rows[one] > 1]
            assert prefills[0] not in cut or 2 * (rows[prefills[0]] - 1) >= budget - len(rows), "the first"
            assert len([one for one in more if one is not prefills[0]]) <= 1, "one after the other"

    def everyone_moves(self) -> None:
        """Nobody who is due is forgotten."""
        scheduler = self.table.scheduler
        due = {one.req_id for one in [*scheduler.seated, *scheduler.paused, *scheduler.waiting]}
        seen: set[int] = set()
        for _ in range(2000):
            if seen >= due:
                return
            seen.update(self.step())
        raise AssertionError(f"{due - seen} never had a step")
