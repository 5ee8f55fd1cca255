"""Steps that are begun ahead, in any schedule: they are theirs for whom they were begun, and turns are kept."""

from __future__ import annotations

from itertools import pairwise

from continued import LINE, driver, rows_of
from driver import alone, events_of, limits, tokens_of
from fairness import Fairness
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.daemon.continuing import Continuing
from paceline.daemon.grants import Grants
from paceline.daemon.plan import PlanKind
from paceline.daemon.requests import State
from paceline.daemon.scheduler import Scheduler
from test_scheduler import Table, feed, request

ACTIONS = ("enter", "leave", "seats", "step", "step")


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_step_that_was_begun_is_theirs_and_texts_are_the_same(data: st.DataObject) -> None:
    """Any arrivals and cancels, and turns that end with the request: while anyone of those who continue is there,
    nobody else is in the next step; and everybody is told what an engine that waits gives."""
    table = driver(slots=data.draw(st.integers(1, 4)), step_tokens=8, prefill_tokens=8)
    totals, req_id = {}, 0
    for _ in range(data.draw(st.integers(1, 40))):
        match data.draw(st.sampled_from(["step", "step", "step", "start", "cancel"])):
            case "step":
                table.step()
            case "start":
                req_id += 1
                totals[req_id] = data.draw(st.integers(1, 9))
                table.send(LINE.format(req_id, totals[req_id], totals[req_id]))
            case "cancel" if req_id:
                table.send(f"CANCEL {data.draw(st.integers(1, req_id))}")
    table.end()
    plans = [plan for plan in table.plans if plan.kind is PlanKind.STEP]
    for plan, behind in pairwise(plans):
        continuing = {req for req, continues in rows_of(plan).items() if continues}
        assert not continuing & set(rows_of(behind)) or set(rows_of(behind)) <= continuing
    ends = {end["req"]: end["reason"] for end in events_of(table.items, "end")}
    assert set(ends) == set(totals)
    for req, reason in ends.items():
        found, expected = tokens_of(table.items, req), alone(LINE.format(req, totals[req], totals[req]))
        assert found == expected if reason == "length" else found == expected[: len(found)]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["enter", "leave", "seats", "step", "step"]), st.integers(1, 30)), max_size=60)
)
def test_turns_are_kept_beside_steps_that_were_begun(actions: list[tuple[str, int]]) -> None:
    """The promise about turns, and that of two steps one at least is shared out among all."""
    table = Table(2, Scheduler(step_tokens=16, prefill_tokens=40))
    scheduler, fairness, req_id = table.scheduler, Fairness(), 0
    continuing = Continuing(0.5, scheduler, Grants(limits(auto=True), {}, scheduler), ())
    held = False
    for action, number in actions:
        due = [*scheduler.seated, *scheduler.paused, *scheduler.waiting]
        match action:
            case "enter":
                req_id += 1
                table.add(request(req_id, number, 1 + number % 4, State.PREFILL))
            case "leave" if due:
                scheduler.leave(due[number % len(due)])
            case "seats":
                table.seats = 1 + number % 4
            case "step":
                fairness.before(scheduler)
                shares = scheduler.step(table.seats, begun := continuing.take())
                fairness.after(scheduler)
                rows = {one for one, _ in shares}
                assert bool(rows) == bool(due) and len(rows) <= table.seats
                whole = table.seats == 1 or len(rows) == min(table.seats, len(due))
                assert whole or (rows <= begun and not held)
                held = not whole
                continuing.choose(shares, 0.0)
                feed(shares)
