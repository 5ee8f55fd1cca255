"""Who is said to be in the next step, and that a step which was begun for some is theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from constrained import ANY_THIRD
from continued import LINE, driver, rows_of, stepped
from drafting import Likely, Sure
from driver import Driver, alone, events_of, limits, tokens_of
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Row, RowFailure, RowResult


def test_a_row_continues_until_its_last_token() -> None:
    table = driver()
    table.send(LINE.format(1, 4, 4))
    assert [stepped(table) for _ in range(5)] == [{1: True}, {1: True}, {1: True}, {1: False}, {}]


def test_who_surely_ends_does_not_and_the_others_do() -> None:
    table = driver()
    table.send(LINE.format(1, 2, 2))
    table.send(LINE.format(2, 4, 4))
    expected = [{1: True, 2: True}, {1: False, 2: True}, {2: True}, {2: False}]
    assert [stepped(table) for _ in range(4)] == expected


def test_nobody_continues_beside_a_prefill_that_goes_on() -> None:
    table = driver(step_tokens=3, prefill_tokens=2)
    table.send(LINE.format(1, 9, 9))
    assert [stepped(table) for _ in range(2)] == [{1: False}, {1: True}]
    table.send(LINE.format(2, 9, 9))
    assert [stepped(table) for _ in range(4)] == [
        {1: False},  # begun for it: the other waits
        {1: False, 2: False},
        {1: True, 2: True},
        {1: True, 2: True},
    ]


def test_a_newcomer_waits_for_the_step_behind_the_one_that_was_begun() -> None:
    table = driver()
    table.send(LINE.format(1, 9, 9))
    stepped(table)
    for req_id in (2, 3):
        table.send(LINE.format(req_id, 9, 9))
        assert set(stepped(table)) == set(range(1, req_id))
        assert set(stepped(table)) == set(range(1, req_id + 1))


def test_when_all_have_ended_nobody_waits() -> None:
    table = driver()
    table.send(LINE.format(1, 9, 9))
    assert stepped(table) == {1: True}
    table.send("CANCEL 1")
    assert stepped(table) == {} and not table.session.lifecycle.continuing.begun
    table.send(LINE.format(2, 9, 9))
    assert stepped(table) == {2: True}


def test_a_request_that_parks_does_not_continue() -> None:
    table = driver(auto=False)
    table.send(LINE.format(1, 9, 2))
    assert [stepped(table) for _ in range(3)] == [{1: True}, {1: False}, {}]
    table.send("REQ 1 CONTINUE 1")
    assert stepped(table) == {1: False}
    table.send("SCHED_DRAIN")
    assert stepped(table) == {1: True}


def test_grants_that_come_late_are_for_the_step_behind() -> None:
    table = driver(auto=False)
    table.send(LINE.format(1, 9, 2))
    table.send(LINE.format(2, 9, 3))
    stepped(table)
    assert stepped(table) == {1: False, 2: True}
    table.send("REQ 1 CONTINUE 5")
    assert [set(stepped(table)) for _ in range(2)] == [{2}, {1}]


def test_nobody_continues_beside_a_grammar() -> None:
    table = driver()
    table.send(LINE.format(1, 9, 9))
    table.send(LINE.format(2, 3, 3) + f" temp=0.7 seed=1 rep_penalty=1.2 {ANY_THIRD} stop=0")
    assert [stepped(table) for _ in range(2)] == [{1: False, 2: False}] * 2
    assert [stepped(table) for _ in range(2)] == [{1: True, 2: False}, {1: True}]  # it surely ends, and has ended


def test_nobody_continues_while_somebody_waits_in_line() -> None:
    table = driver(slots=4, max_batch=2, auto=True)
    for req_id in (1, 2, 3):
        table.send(LINE.format(req_id, 3 * req_id, 1))
    scheduler, continued = table.session.lifecycle.scheduler, 0
    while rows := stepped(table):
        assert not any(rows.values()) or not scheduler.waiting
        continued += any(rows.values())
    assert continued > 3


def test_an_engine_that_waits_begins_nothing() -> None:
    table = Driver()
    table.send(LINE.format(1, 3, 3))
    assert [stepped(table) for _ in range(3)] == [{1: False}] * 3


def drafted(table: Driver) -> tuple[int, bool]:
    """Of a step of one row: its drafted tokens, and whether it continues."""
    table.step()
    (row,) = table.plans[-1].batches[0]
    return max(row.outputs, 1) - 1, row.continues


@pytest.mark.parametrize(("wait_cost", "expected"), [(0.42, (2, False)), (0.44, (0, True))])
def test_drafts_are_tried_where_they_save_more_than_a_wait(wait_cost: float, expected: tuple[int, bool]) -> None:
    """Chances of 1/2 and 1/4: 1.75 tokens in 1.32 steps, so that 0.43 are saved."""
    table = driver(draft=8, wait_cost=wait_cost)
    table.session.lifecycle.drafts.new_guesser = Likely
    table.send(LINE.format(1, 90, 90))
    assert drafted(table) == (0, True)
    table.session.lifecycle.continuing.begun = frozenset()
    assert drafted(table) == expected


def test_a_step_that_was_begun_has_no_drafts_and_the_next_one_has() -> None:
    class Sometimes(Sure):
        """Has something to say behind 6 to 10 and from 40 tokens on."""

        def chances(self) -> Iterator[float]:
            return super().chances() if 6 <= len(self.known) - 3 <= 10 or len(self.known) > 43 else iter(())

    table = driver(draft=2, wait_cost=0.05)
    table.session.lifecycle.drafts.new_guesser = Sometimes
    table.send(LINE.format(1, 100, 100))
    steps = [drafted(table) for _ in range(45)]
    assert steps[:9] == [(0, True)] * 6 + [(0, False), (2, False), (2, False)]  # at 6 tokens; then 7 + 3
    quiet = steps[9:].index((0, True))
    assert steps[9 : 9 + quiet] == [(0, False)] * quiet  # drafts may come again
    assert 10 < quiet < 35
    assert (2, False) in steps[-5:]
    table.end()
    assert tokens_of(table.items, 1) == alone(LINE.format(1, 100, 100))


def test_a_target_step_is_not_what_was_begun() -> None:
    table = driver()
    table.send(LINE.format(1, 9, 9))
    stepped(table)
    assert table.ask("SCHED_BATCH_TARGET_STEP")["ok"]
    assert rows_of(table.plans[-1]) == {1: False}
    table.send(LINE.format(2, 9, 9))
    assert stepped(table) == {1: True, 2: True}


def test_nobody_continues_in_turn_with_a_prefill() -> None:
    """With one seat the next step is the other's."""
    table = driver(max_batch=1, step_tokens=2, prefill_tokens=2)
    table.send(LINE.format(1, 9, 9))
    assert [stepped(table) for _ in range(2)] == [{1: False}, {1: True}]
    table.send("REQ 2 START ids:7,8,9,10,11,12,13 9")
    assert [stepped(table) for _ in range(6)] == [
        {1: False},
        {2: False},
        {1: False},
        {2: False},
        {1: False},
        {2: False},
    ]


def test_nobody_continues_where_a_slot_surely_becomes_free_for_somebody() -> None:
    table = driver(slots=2)
    table.send(LINE.format(1, 9, 9))
    table.send(LINE.format(2, 3, 3))
    stepped(table)
    table.send(LINE.format(3, 9, 9))
    assert [stepped(table) for _ in range(3)] == [{1: True, 2: True}, {1: False, 2: False}, {1: True, 3: True}]


def test_what_a_step_behind_may_have_replaced_is_not_kept() -> None:
    """Of a recurrent model: the state of a row that failed."""

    class Fails(NullEngine):
        def step(self, rows: Sequence[Row]) -> tuple[list[RowResult | RowFailure], int]:
            found, read = super().step(rows)
            failed: list[RowResult | RowFailure] = [
                RowFailure("no numbers") if row.position > 70 and row.req_id == 1 else result
                for row, result in zip(rows, found, strict=True)
            ]
            return failed, read

    engine = Fails(2, 256, recurrent=True)
    engine.info = replace(engine.info, wait_cost=0.5)
    table = Driver(limits(2, states=4), engine)
    prompt = ",".join(map(str, range(70)))
    table.send(f"REQ 1 START ids:{prompt} 90 90 ignore_eos=1")
    table.run()
    assert events_of(table.items, "end")[0]["reason"] == "failed"
    text = [*range(70), *tokens_of(table.items, 1)]
    start = f"REQ 2 START ids:{','.join(map(str, text))} 9"
    table.send(start)
    table.end()
    assert tokens_of(table.items, 2) == alone(start)


@pytest.mark.parametrize("quantum", [1, 2, 3, 60])
def test_whose_turn_is_over_loses_no_step_where_all_have_seats(quantum: int) -> None:
    table = driver(slots=4, auto=True)
    table.send(LINE.format(1, 60, quantum))
    table.send(LINE.format(2, 60, 60))
    for step in range(60):
        if step % 2:
            table.send(LINE.format(3 + step, 1, 1))
        assert {1, 2} <= set(stepped(table))
    assert not {1, 2} & set(stepped(table))


def test_fewer_seats_are_fewer_seats() -> None:
    table = driver()
    for req_id in (1, 2, 3):
        table.send(LINE.format(req_id, 9, 9))
    assert stepped(table) == {1: True, 2: True, 3: True}
    table.send("SCHED_BATCH_DRAIN 2")
    assert len(stepped(table)) == 2
