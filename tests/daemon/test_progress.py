"""What a step with drafted tokens means for the stream: what as many single steps would have meant."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from drafting import START, Sure, Wrong, drafting, lengths, stepwise
from driver import Driver, alone, events_of, limits, signals_of, tokens_of
from paceline.daemon.guesses import Guesser
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Row, RowResult
from paceline.protocol import Message


@pytest.mark.parametrize(("guesser", "steps"), [(Sure, 1 + 3), (Wrong, 1 + 19)])
def test_drafts_change_how_many_steps_a_text_takes_and_nothing_else(guesser: type[Guesser], steps: int) -> None:
    driver = drafting(guesser)
    driver.send(f"REQ 1 {START} hash=1")
    driver.end()
    single = stepwise(f"REQ 1 {START} hash=1")
    assert tokens_of(driver.items, 1) == tokens_of(single.items, 1)
    (end,), (expected,) = events_of(driver.items, "end"), events_of(single.items, "end")
    same = ("tokens", "reason", "logits_sha256", "prompt_tokens", "seed", "mean_rows")
    assert [end[name] for name in same] == [expected[name] for name in same]
    assert len(driver.plans) == steps and len(single.plans) == 20
    stats = driver.reply("STATS")
    assert (stats["drafted"], stats["drafted_right"]) == ((16, 16) if guesser is Sure else (stats["drafted"], 0))
    assert stats["tokens_out"] == 20 and stats["decode_tps"] is not None


def test_an_end_within_a_draft_ends_it() -> None:
    tokens = alone(f"REQ 1 {START}")
    driver = drafting()
    driver.send(f"REQ 1 {START} stop={tokens[4]} hash=1")
    driver.step()
    driver.step()
    assert lengths(driver) == [4], "neither the token that ends it nor what is behind it"
    driver.end()
    assert tokens_of(driver.items, 1) == tokens[:4] and len(driver.plans) == 2
    single = stepwise(f"REQ 1 {START} stop={tokens[4]} hash=1")
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
    single = stepwise(f"REQ 1 {START} hash=1")
    assert tokens_of(driver.items, 1) == tokens_of(single.items, 1) and len(driver.plans) == 1 + 10
    assert events_of(driver.items, "end")[0]["logits_sha256"] == events_of(single.items, "end")[0]["logits_sha256"]


def test_an_end_without_drafts_tells_of_none() -> None:
    assert "drafted" not in events_of(stepwise(f"REQ 1 {START}").items, "end")[0]
