"""Drafted tokens: who gets how many."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from drafting import START, Likely, drafting, lengths
from driver import Driver, alone, events_of, limits, signals_of, tokens_of
from paceline.daemon.guesses import Guesser
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Row, RowResult


def test_a_grant_and_a_turn_are_not_exceeded() -> None:
    driver = drafting()
    driver.send(f"REQ 1 {START} 4")
    driver.run()
    assert [len(plan.batches[0][0].tokens) for plan in driver.plans] == [3, 3]  # the prompt; a pending one and two
    assert (len(tokens_of(driver.items, 1)), signals_of(driver.items, 1)) == (4, [-4])
    driver.send("REQ 1 CONTINUE 9")
    driver.run()
    assert [len(plan.batches[0][0].tokens) for plan in driver.plans[2:]] == [4, 4, 1]  # turns are of four
    assert len(tokens_of(driver.items, 1)) == 13


def test_the_last_token_is_not_passed() -> None:
    driver = drafting()
    driver.send("REQ 1 START ids:1,2,3 3")
    driver.end()
    assert [len(plan.batches[0][0].tokens) for plan in driver.plans] == [3, 2]
    assert signals_of(driver.items, 1) == [-1]


def test_nothing_is_drafted_where_none_is_asked_for() -> None:
    driver = drafting(draft=0)
    driver.send(f"REQ 1 {START}")
    driver.end()
    assert len(driver.plans) == 20


def test_by_hand_a_step_is_one_token() -> None:
    driver = drafting()
    driver.send(f"REQ 1 {START} 5")
    driver.step()
    driver.ask("SCHED_BATCH_TARGET_STEP")
    assert lengths(driver) == [1]
    assert driver.ask("SCHED_BATCH_PROBE")["mismatches"] == 0
    driver.step()
    assert lengths(driver) == [3], "what is left of the grant"


@pytest.mark.parametrize(("rows", "drafted"), [(1, 2), (2, 2), (4, 4), (5, 3), (6, 0), (7, 1), (9, 3), (16, 0)])
def test_a_step_takes_what_gives_the_most_tokens_for_its_cost(rows: int, drafted: int) -> None:
    """Chances are 1/2, 1/4, 1/8 …, a column costs 0.16. One row gives 1 / 1, 1.5 / 1.16, 1.75 / 1.32, but 1.875 / 1.48
    with a third; six 6 / 1.8, but 6.5 / 2.12 with one, as kernels compute eight columns then."""
    driver = drafting(Likely, slots=rows, step_tokens=200)
    for req_id in range(1, rows + 1):
        driver.send(f"REQ {req_id} {START}")
    driver.step()
    driver.step()
    assert sum(lengths(driver)) - rows == drafted


def test_drafts_stay_within_the_tokens_of_a_step() -> None:
    driver = drafting(cost=0.0, slots=2, step_tokens=7)
    for req_id in (1, 2):
        driver.send(f"REQ {req_id} START ids:1,2,{req_id} 20")
    driver.step()
    driver.step()
    assert sum(lengths(driver)) == 7
    driver.send(f"REQ 3 START ids:{','.join(map(str, range(60)))} 20")
    driver.end()
    assert all(sum(row.outputs for row in plan.batches[0]) <= 7 for plan in driver.plans)
    for req_id in (1, 2):
        assert tokens_of(driver.items, req_id) == alone(f"REQ {req_id} START ids:1,2,{req_id} 20")


def test_drafts_go_beside_a_prefill() -> None:
    driver = drafting(slots=2)
    driver.send(f"REQ 1 {START}")
    driver.step()
    driver.send(f"REQ 2 START ids:{','.join(map(str, range(100)))} 2")
    driver.step()
    assert lengths(driver) == [8, 63], "as many as without it"


def test_where_only_certain_guesses_would_pay_there_are_none() -> None:
    for rows, drafted in ((2, 6), (64, 0)):
        driver = drafting(slots=rows, step_tokens=200, draft=3)
        for req_id in range(1, rows + 1):
            driver.send(f"REQ {req_id} {START}")
        driver.step()
        driver.step()
        assert sum(lengths(driver)) - rows == drafted


def test_a_text_that_goes_round_is_drafted_from_itself() -> None:
    """With the guesser that the daemon has: the engine's tokens repeat themselves."""

    class Repeating(NullEngine):
        def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
            return [
                RowResult(
                    tuple((row.position + len(row.tokens) - row.outputs + n) % 5 for n in range(row.outputs)), None
                )
                for row, _ in zip(rows, super().step(rows)[0], strict=True)
            ], 0

    driver = Driver(limits(slots=1, draft=8), Repeating(1, 256))
    driver.send("REQ 1 START ids:9 60")
    driver.end()
    assert tokens_of(driver.items, 1) == [n % 5 for n in range(60)]
    assert len(driver.plans) < 25
    assert driver.session.counters.drafted_right > 0.9 * driver.session.counters.drafted


def test_what_is_predicted_is_drafted_from_its_first_token_on() -> None:
    """By the guesser that the daemon has: the null engine's tokens are in no prompt."""
    tokens = alone(f"REQ 1 {START}")
    predicted = [*tokens[:9], 7, 7, *tokens[9:]]
    driver = drafting(Guesser, cost=0.0)
    driver.send(f"REQ 1 {START} predict={','.join(map(str, predicted))}")
    driver.end()
    assert tokens_of(driver.items, 1) == tokens
    assert [len(plan.batches[0][0].tokens) for plan in driver.plans][:2] == [3, 9], "the pending one, and eight"
    assert len(driver.plans) < 8
    (end,) = events_of(driver.items, "end")
    stats = driver.reply("STATS")
    assert (end["drafted"], end["drafted_right"]) == (stats["drafted"], stats["drafted_right"])
    assert end["drafted_right"] == 20 - len(driver.plans)


def test_a_prediction_makes_no_other_request_of_it() -> None:
    driver = drafting(auto=True, coalesce=True)
    driver.send(f"REQ 1 {START} predict=5")
    assert driver.reply(f"REQ 2 {START}")["with"] == 1
    driver.end()
    assert "drafted" in events_of(driver.items, "end")[1]
