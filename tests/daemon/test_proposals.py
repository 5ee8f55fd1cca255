"""What an engine that drafts is asked for, and what becomes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from constrained import ANY_THIRD
from drafting import START, Truthful, Untrue, aheads, drafting, lengths, stepwise
from driver import Driver, events_of, tokens_of
from paceline.daemon.drafts import ASKED_AGAIN, MOST_AHEAD
from paceline.daemon.guesses import Guesser
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Row, RowResult
from paceline.daemon.requests import State

LONG = "START ids:1,2,3 60"


def proposing(engine: type[NullEngine] = Truthful, **named: object) -> Driver:
    return drafting(Guesser, engine=engine, **({"slots": 1} | named))  # type: ignore[arg-type]


@pytest.mark.parametrize("options", ["hash=1", "hash=1 temp=1 seed=5", "hash=1 rep_penalty=1.2"])
@pytest.mark.parametrize(("engine", "least", "most"), [(Truthful, 8, 20), (NullEngine, 21, 50), (Untrue, 60, 60)])
def test_the_better_an_engine_drafts_the_fewer_steps_a_text_takes(
    engine: type[NullEngine], least: int, most: int, options: str
) -> None:
    driver, single = proposing(engine), stepwise(f"REQ 1 {LONG} {options}")
    driver.send(f"REQ 1 {LONG} {options}")
    driver.end()
    assert tokens_of(driver.items, 1) == tokens_of(single.items, 1)
    (end,), (told,) = events_of(driver.items, "end"), events_of(single.items, "end")
    assert end["logits_sha256"] == told["logits_sha256"]
    assert least <= len(driver.plans) <= most and len(single.plans) == 60
    assert end["drafted_right"] == 60 - len(driver.plans)


def test_an_engine_that_errs_is_hardly_asked() -> None:
    driver = proposing(Untrue)
    driver.send(f"REQ 1 {LONG}")
    driver.end()
    asked = [plan.batches[0][0].ahead for plan in driver.plans]
    assert asked[0] > 1 and max(asked[10:]) == 1 and sum(asked[10:]) <= 60 / ASKED_AGAIN
    assert driver.reply("STATS")["drafted_right"] == 0


def test_one_that_errs_at_first_is_asked_again() -> None:
    class Late(Truthful):
        def _draft(self, state: int, position: int, seed: int | None, count: int) -> Iterator[int]:
            return (token + (position < 30) for token in super()._draft(state, position, seed, count))

    driver = proposing(Late, context=512)
    driver.send("REQ 1 START ids:1,2,3 400")
    driver.end()
    assert len(driver.plans) < 200


def test_one_that_does_not_is_asked_for_more() -> None:
    driver = proposing(cost=0.0)
    driver.send("REQ 1 START ids:1,2,3 200")
    driver.end()
    asked = [plan.batches[0][0].ahead for plan in driver.plans[:-3]]  # at the end less can be tried
    assert sorted(asked) == asked and asked[-1] > asked[0] + 2


def test_the_same_commands_make_the_same_steps() -> None:
    drivers = [proposing(NullEngine, slots=3) for _ in range(2)]
    for driver in drivers:
        for req_id in (1, 2, 3):
            driver.send(f"REQ {req_id} START ids:1,2,{req_id} 40")
        driver.end()
    one, other = ([[(row.tokens, row.ahead) for row in plan.batches[0]] for plan in each.plans] for each in drivers)
    assert one == other and len(one) < 40


def test_nobody_is_asked_where_nothing_is_tried() -> None:
    for driver in (proposing(draft=0), drafting(Guesser), proposing(slots=1, step_tokens=1)):
        driver.send(f"REQ 1 {START}")
        driver.end()
        assert {row.ahead for plan in driver.plans for row in plan.batches[0]} == {0}
        assert len(driver.plans) == 20


@pytest.mark.parametrize(("cost", "asked"), [(0.01, True), (0.16, False)])
def test_a_step_of_many_rows_is_not_asked_for_more(cost: float, asked: bool) -> None:
    driver = proposing(cost=cost, slots=64, step_tokens=200)
    for req_id in range(1, 65):
        driver.send(f"REQ {req_id} {START}")
    driver.step()
    assert all((ahead > 0) == asked for ahead in aheads(driver))


def test_a_prompt_s_last_chunk_is_the_first_that_asks() -> None:
    driver = proposing(slots=2, prefill_tokens=2, step_tokens=9)
    driver.send(f"REQ 1 {START}")
    driver.step()
    assert aheads(driver) == [0]
    driver.step()
    assert aheads(driver)[0] > 0
    driver.send(f"REQ 2 START ids:{','.join(map(str, range(20)))} 2")
    driver.step()
    assert lengths(driver)[0] > 1 and aheads(driver)[0] > 0 and aheads(driver)[1] == 0
    driver.end()
    assert tokens_of(driver.items, 1) == tokens_of(stepwise(f"REQ 1 {START}").items, 1)


def test_a_step_by_hand_asks_for_nothing_and_what_is_proposed_outlives_it() -> None:
    """As it outlives a request that is parked."""
    driver = proposing()
    driver.send(f"REQ 1 {START} 1")
    driver.step()
    assert aheads(driver) == [0], "a turn of one token tries nothing"
    driver.send("REQ 1 CONTINUE 5")
    driver.step()
    assert (lengths(driver), aheads(driver)) == ([1], [0])
    driver = proposing(cost=0.02)
    driver.send(f"REQ 1 {START} 5")
    driver.step()
    (ahead,) = aheads(driver)
    assert ahead == 3
    driver.ask("SCHED_BATCH_TARGET_STEP")
    assert aheads(driver) == [0]
    assert driver.ask("SCHED_BATCH_PROBE")["mismatches"] == 0
    assert {row.ahead for rows in driver.plans[-1].batches for row in rows} == {0}
    driver.step()
    assert lengths(driver) == [1 + 2], "what is left of the grant, and of the proposal"
    assert driver.session.live[1].state is State.PARKED
    driver.send("REQ 1 CONTINUE 9")
    driver.step()
    assert (lengths(driver), aheads(driver)) == ([1 + 1], [3])
    driver.end()
    assert driver.session.counters.drafted_right == driver.session.counters.drafted > 0


def test_a_proposal_is_void_where_the_text_goes_another_way() -> None:
    """Of three drafted tokens the second is wrong: the third is never tried."""

    class Half(Truthful):
        def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
            results, _ = super().step(rows)
            wrong = [(one.drafted[:1] + tuple(token + 1 for token in one.drafted[1:])) for one in results]
            return [one._replace(drafted=drafted[:3]) for one, drafted in zip(results, wrong, strict=True)], 0

    driver = proposing(Half, cost=0.0)
    driver.send(f"REQ 1 {LONG}")
    for _ in range(6):
        driver.step()
        assert (guesser := driver.session.live[1].guesser) is not None
        assert len(guesser.guess(9)) == 3, "what was drafted last"
    assert guesser is not None
    driver.ask("SCHED_BATCH_TARGET_STEP")
    driver.session.lifecycle.drafts._guesser(driver.session.live[1])
    assert len(guesser.guess(9)) == 2, "what is left of it"
    driver.ask("SCHED_BATCH_TARGET_STEP")
    driver.session.lifecycle.drafts._guesser(driver.session.live[1])
    assert guesser.guess(9) == []
    driver.end()
    assert tokens_of(driver.items, 1) == tokens_of(stepwise(f"REQ 1 {LONG}").items, 1)
    assert 0 < driver.session.counters.drafted_right < driver.session.counters.drafted


@pytest.mark.parametrize("wrong", [None, 5])
def test_what_is_proposed_in_a_grammar_is_tried_as_far_as_that_allows(wrong: int | None) -> None:
    start = f"START ids:1,2,3 40 stop=0 {ANY_THIRD} hash=1"
    single = stepwise(f"REQ 1 {start}")
    expected = tokens_of(single.items, 1)

    class Knows(Truthful):
        """The text, and at `wrong` a token that is allowed nowhere."""

        def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
            results = []
            for row, one in zip(rows, super().step(rows)[0], strict=True):
                end = row.position + len(row.tokens) - row.outputs + 1 - row.prompt_tokens + len(one.right(row))
                known = [0 if n == wrong else token for n, token in enumerate(expected)]
                results.append(one._replace(drafted=tuple(known[end : end + row.ahead])))
            return results, 0

    driver = proposing(Knows)
    driver.send(f"REQ 1 {start}")
    driver.end()
    assert tokens_of(driver.items, 1) == expected
    (end,), (told,) = events_of(driver.items, "end"), events_of(single.items, "end")
    assert end["logits_sha256"] == told["logits_sha256"]
    counters = driver.session.counters
    assert counters.drafted == counters.drafted_right == 40 - len(driver.plans) and len(driver.plans) < 20


def test_an_engine_that_knows_no_grammar_changes_nothing_there() -> None:
    start = f"START ids:1,2,3 20 stop=0 {ANY_THIRD}"
    driver = proposing(cost=0.02, slots=3)
    for req_id in (1, 2, 3):
        driver.send(f"REQ {req_id} {start}")
    driver.step()
    assert max(aheads(driver)) == MOST_AHEAD // 3, "no more are looked at"
    driver.end()
    for req_id in (1, 2, 3):
        assert tokens_of(driver.items, req_id) == tokens_of(stepwise(f"REQ 1 {start}").items, 1)
