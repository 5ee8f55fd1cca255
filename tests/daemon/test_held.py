"""Drafts of outputs that are held to grammars."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from constrained import ANY_THIRD, ListedGrammars
from drafting import Sure, drafting, stepwise
from driver import events_of, tokens_of
from paceline.daemon.constraints import Ahead, Given, Stuck
from paceline.daemon.guesses import Guesser

HELD = f"START ids:1,2,3 20 stop=0 {ANY_THIRD} hash=1"


@pytest.mark.parametrize(("wrong", "fed"), [(None, [3, 8, 8, 3]), (5, [3, 5, 8, 6])])
def test_a_draft_in_a_grammar_is_what_that_allows(wrong: int | None, fed: list[int]) -> None:
    """What is not allowed is not drafted, and neither is what is behind it."""
    single = stepwise(f"REQ 1 {HELD}")
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
