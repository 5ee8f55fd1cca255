"""Drafted tokens: who gets them, and what a step with them means for the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from constrained import ANY_THIRD, ListedGrammars
from driver import Driver, alone, events_of, limits, signals_of, tokens_of
from paceline.daemon.constraints import Ahead, Given, Stuck
from paceline.daemon.guesses import Guesser
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Row, RowResult
from paceline.protocol import Message
from prophet import Prophet

START = "START ids:1,2,3 20"


class Sure(Prophet):
    """Always right where nobody draws; `chance` for each further token."""

    chance = 1.0

    def __init__(self, ids: Sequence[int]) -> None:
        super().__init__(ids)
        self.known = [*ids]

    def add(self, token: int) -> None:
        super().add(token)
        self.known.append(token)

    def guess(self, count: int) -> list[int]:
        driver = Driver(slots=1)
        driver.send(f"REQ 1 START ids:{','.join(map(str, self.known))} {count}")
        driver.end()
        return tokens_of(driver.items, 1)

    def chances(self) -> Iterator[float]:
        return iter([self.chance**n for n in range(1, 100)])


class Wrong(Sure):
    def guess(self, count: int) -> list[int]:
        return [token + 1 for token in super().guess(count)]


class Likely(Sure):
    chance = 0.5


def drafting(guesser: type[Guesser] = Sure, cost: float = 0.16, **named: Any) -> Driver:
    bounds = limits(**({"draft": 8} | named))
    engine = NullEngine(bounds.slots, bounds.context)
    engine.info = replace(engine.info, column_cost=cost)
    driver = Driver(bounds, engine)
    driver.session.lifecycle.drafts.new_guesser = guesser
    return driver


def lengths(driver: Driver) -> list[int]:
    """Of the rows of the last step."""
    return [len(row.tokens) for row in driver.plans[-1].batches[0]]


@pytest.mark.parametrize(("guesser", "steps"), [(Sure, 1 + 3), (Wrong, 1 + 19)])
def test_drafts_change_how_many_steps_a_text_takes_and_nothing_else(guesser: type[Guesser], steps: int) -> None:
    driver = drafting(guesser)
    driver.send(f"REQ 1 {START} hash=1")
    driver.end()
    single = Driver()
    single.send(f"REQ 1 {START} hash=1")
    single.end()
    assert tokens_of(driver.items, 1) == tokens_of(single.items, 1)
    (end,), (expected,) = events_of(driver.items, "end"), events_of(single.items, "end")
    same = ("tokens", "reason", "logits_sha256", "prompt_tokens", "seed", "mean_rows")
    assert [end[name] for name in same] == [expected[name] for name in same]
    assert len(driver.plans) == steps and len(single.plans) == 20
    stats = driver.reply("STATS")
    assert (stats["drafted"], stats["drafted_right"]) == ((16, 16) if guesser is Sure else (stats["drafted"], 0))
    assert stats["tokens_out"] == 20 and stats["decode_tps"] is not None


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


def test_an_end_within_a_draft_ends_it() -> None:
    tokens = alone(f"REQ 1 {START}")
    driver = drafting()
    driver.send(f"REQ 1 {START} stop={tokens[4]} hash=1")
    driver.step()
    driver.step()
    assert lengths(driver) == [4], "neither the token that ends it nor what is behind it"
    driver.end()
    assert tokens_of(driver.items, 1) == tokens[:4] and len(driver.plans) == 2
    single = Driver()
    single.send(f"REQ 1 {START} stop={tokens[4]} hash=1")
    single.end()
    (end,), (expected,) = events_of(driver.items, "end"), events_of(single.items, "end")
    assert (end["reason"], end["stop_token"]) == ("stop", tokens[4])
    assert end["logits_sha256"] == expected["logits_sha256"]


def test_an_end_that_was_not_drafted_leaves_the_rest_of_the_row_unread() -> None:
    tokens = alone(f"REQ 1 {START}")
    driver = drafting(Wrong)
    driver.send(f"REQ 1 {START} stop={tokens[1]}")
    driver.end()
    assert tokens_of(driver.items, 1) == tokens[:1] and signals_of(driver.items, 1) == [-1]


def test_each_token_has_its_own_logprobs_before_it() -> None:
    driver, single = drafting(), Driver()
    for one in (driver, single):
        one.send(f"REQ 1 {START} logprobs=2")
        one.end()
    told, expected = (
        [item for item in one.items if not isinstance(item, Message) or item.body.get("event") == "logprobs"]
        for one in (driver, single)
    )
    assert told == expected and len(told) == 2 * 20 + 1


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


HELD = f"START ids:1,2,3 20 stop=0 {ANY_THIRD} hash=1"


@pytest.mark.parametrize(("wrong", "fed"), [(None, [3, 8, 8, 3]), (5, [3, 5, 8, 6])])
def test_a_draft_in_a_grammar_is_what_that_allows(wrong: int | None, fed: list[int]) -> None:
    """What is not allowed is not drafted, and neither is what is behind it."""
    single = Driver()
    single.send(f"REQ 1 {HELD}")
    single.end()
    expected = tokens_of(single.items, 1)

    class Knows(Sure):
        def guess(self, count: int) -> list[int]:
            at = len(self.known) - 3
            return [0 if at + n == wrong else token for n, token in enumerate(expected[at : at + count])]

    driver = drafting(Knows)
    driver.send(f"REQ 1 {HELD}")
    driver.end()
    assert tokens_of(driver.items, 1) == expected
    (end,), (told,) = events_of(driver.items, "end"), events_of(single.items, "end")
    assert end["logits_sha256"] == told["logits_sha256"]
    assert [len(plan.batches[0][0].tokens) for plan in driver.plans] == fed
    assert driver.session.counters.drafted == driver.session.counters.drafted_right


def test_what_a_grammar_forces_is_drafted() -> None:
    driver = drafting(Guesser)
    driver.send('REQ 1 START ids:1,2,3 20 stop=5 grammar={"lark":"10,11;12;13;14;15;16,17;18;19;20"}')
    driver.end()
    tokens = tokens_of(driver.items, 1)
    assert tokens[1:5] == [12, 13, 14, 15] and tokens[6:] == [18, 19, 20]
    assert [len(plan.batches[0][0].tokens) for plan in driver.plans] == [3, 5, 4], "a choice ends a draft"
    assert driver.session.counters.drafted_right == 4 + 3
    request_end = events_of(driver.items, "end")[0]
    assert (request_end["reason"], request_end["stop_token"]) == ("stop", 5)


def test_few_tokens_are_looked_at_in_grammars_where_many_rows_are() -> None:
    looked: list[tuple[int, int]] = []

    class Watched(ListedGrammars):
        def follow(self, given: Sequence[Given]) -> list[Ahead | Stuck]:
            looked.extend((len(given), one.most) for one in given)
            return super().follow(given)

    for rows, most in ((1, 8), (3, 2), (9, 0)):
        driver = drafting(slots=9)
        driver.session.lifecycle.held._grammars = Watched(driver.engine.info.vocab)
        for req_id in range(1, rows + 1):
            driver.send(f"REQ {req_id} {HELD}")
        driver.step()
        driver.step()
        assert looked == [(rows, most)] * 2 * rows
        looked.clear()


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


def test_a_row_may_come_back_without_all_of_its_draft() -> None:
    """As when the logits behind a wrong token are no numbers: the next step goes on from where this one was sure."""

    class Short(NullEngine):
        def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
            results, _ = super().step(rows)
            return [RowResult(one.tokens[:2], one.logits and one.logits[:16]) for one in results], 0

    driver = Driver(limits(slots=1, draft=8), Short(1, 256))
    driver.session.lifecycle.drafts.new_guesser = Sure
    driver.send(f"REQ 1 {START} hash=1")
    driver.end()
    single = Driver()
    single.send(f"REQ 1 {START} hash=1")
    single.end()
    assert tokens_of(driver.items, 1) == tokens_of(single.items, 1) and len(driver.plans) == 1 + 10
    assert events_of(driver.items, "end")[0]["logits_sha256"] == events_of(single.items, "end")[0]["logits_sha256"]


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


def test_an_end_without_drafts_tells_of_none() -> None:
    driver = Driver()
    driver.send(f"REQ 1 {START}")
    driver.end()
    assert "drafted" not in events_of(driver.items, "end")[0]
