"""Requests that come together and begin alike: one computes the beginning, the others go on from it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from driver import Driver, alone, events_of, terminal_of, tokens_of
from paceline.daemon.engine import RowFailure
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import PAGE, Seat
from paceline.protocol import CANCELLED, DONE

COMMON = list(range(1, 1001))


def ids(*parts: list[int]) -> str:
    return "ids:" + ",".join(str(token) for part in parts for token in part)


def computed(driver: Driver) -> dict[int, int]:
    """Tokens of the prompt that each request was fed."""
    fed: dict[int, int] = {}
    for plan in driver.plans:
        for row in plan.batches[0] if plan.batches else ():
            if row.position < row.prompt_tokens:
                fed[row.req_id] = fed.get(row.req_id, 0) + len(row.tokens)
    return fed


def start(driver: Driver, count: int, *parts: list[int], options: str = "") -> list[str]:
    lines = [f"REQ {req_id} START {ids(*parts)} 3 temp=1 seed={req_id} {options}" for req_id in range(1, count + 1)]
    for line in lines:
        assert driver.reply(line)["ok"]
    return lines


def test_one_computes_what_all_begin_with() -> None:
    driver = Driver(slots=8, context=1280)
    lines = start(driver, 8, COMMON)
    driver.run()
    first, *others = computed(driver).values()
    assert first == 1000
    assert all(count <= 1000 % PAGE + len(driver.plans) for count in others)
    assert len(driver.plans) <= 1000 // 512 + 4
    for req_id, line in enumerate(lines, 1):
        assert tokens_of(driver.items, req_id) == alone(line, context=1280)
    ends = events_of(driver.items, "end")
    assert [end["cached_tokens"] + computed(driver)[end["req"]] for end in ends] == [1000] * 8
    stats = driver.reply("STATS")
    assert stats["prefix_hits"] == 7
    assert stats["prefix_tokens"] == sum(end["cached_tokens"] for end in ends)


def test_equal_prompts_of_less_than_a_page() -> None:
    driver = Driver(slots=8)
    lines = start(driver, 8, COMMON[:40])
    driver.run()
    assert list(computed(driver).values()) == [40] + [2] * 7, "one in the step that computes it, and the last one"
    for req_id, line in enumerate(lines, 1):
        assert tokens_of(driver.items, req_id) == alone(line)


def test_a_step_is_not_waited_for_a_few_positions() -> None:
    driver = Driver(slots=8)
    start(driver, 8, COMMON[:16])
    driver.step()
    assert [len(tokens_of(driver.items, req_id)) for req_id in range(1, 9)] == [1] * 8


def test_nobody_waits_whose_text_goes_on_differently() -> None:
    driver = Driver(slots=5, context=1280)
    driver.send(f"REQ 9 START {ids(COMMON[:640])} 1")
    driver.run()
    for req_id in range(1, 5):
        driver.send(f"REQ {req_id} START {ids(COMMON[:640], [req_id] * 100)} 3")
    driver.plans.clear()
    driver.step()
    assert list(computed(driver).values()) == [100] * 4


def test_it_is_held_in_memory_once() -> None:
    driver = Driver(slots=8, context=1280, pages=40)  # two at once, were each to have all its pages to itself
    start(driver, 8, COMMON)
    assert len(events_of(driver.items, "admitted")) == 0
    driver.step()
    assert driver.reply("STATS")["queue"] == 6
    driver.step()
    assert driver.reply("STATS")["queue"] == 0, "what the second gave back was enough for all"
    driver.run()
    assert [terminal_of(driver.items, req_id) for req_id in range(1, 9)] == [DONE] * 8


def test_texts_that_part_share_what_is_before() -> None:
    driver = Driver(slots=3, context=1280)
    lines = [
        f"REQ 1 START {ids(COMMON[:500], [7] * 300)} 3",
        f"REQ 2 START {ids(COMMON[:500], [8] * 300)} 3",
        f"REQ 3 START {ids(COMMON[:130], [9] * 300)} 3",
    ]
    for line in lines:
        driver.send(line)
    driver.run()
    fed = computed(driver)
    assert fed[1] == 800
    assert fed[2] <= 800 - 448 + len(driver.plans)
    assert fed[3] <= 430 - 128 + len(driver.plans)
    for req_id, line in enumerate(lines, 1):
        assert tokens_of(driver.items, req_id) == alone(line, context=1280)


def test_one_that_comes_in_the_middle_goes_along() -> None:
    driver = Driver(slots=2, context=1280, prefill_tokens=100)
    driver.send(f"REQ 1 START {ids(COMMON)} 3")
    for _ in range(4):
        driver.step()
    driver.send(f"REQ 2 START {ids(COMMON)} 3 temp=1 seed=3")
    driver.run()
    fed = computed(driver)
    assert fed[1] == 1000 and fed[2] <= 1000 % PAGE + 10


def test_who_computes_may_be_cancelled() -> None:
    driver = Driver(slots=4, context=1280, prefill_tokens=200)
    lines = start(driver, 4, COMMON)
    driver.step()
    driver.step()
    driver.send("CANCEL 1")
    driver.run()
    assert terminal_of(driver.items, 1) == CANCELLED
    assert sum(computed(driver).values()) <= 1000 + 3 * (PAGE + len(driver.plans))
    for req_id in (2, 3, 4):
        assert tokens_of(driver.items, req_id) == alone(lines[req_id - 1], context=1280)


def test_who_computes_may_fail() -> None:
    class FailsOnce(NullEngine):
        def step(self, rows):  # type: ignore[no-untyped-def]
            results, weight_bytes = super().step(rows)
            return [
                RowFailure("broken") if row.req_id == 1 and row.position else result
                for row, result in zip(rows, results, strict=True)
            ], weight_bytes

    driver = Driver(slots=3, context=1280, prefill_tokens=200, engine=FailsOnce(3, 1280))
    lines = start(driver, 3, COMMON)
    driver.run()
    assert events_of(driver.items, "end")[0]["code"] == "step_failed"
    for req_id in (2, 3):
        assert tokens_of(driver.items, req_id) == alone(lines[req_id - 1], context=1280)


def test_a_snapshot_on_the_way_is_taken() -> None:
    driver = Driver(slots=3, context=1280, prefill_tokens=200)
    driver.send(f"REQ 1 START {ids(COMMON)} 3")
    driver.send(f"REQ 2 START {ids(COMMON)} 3 snap=640:border")
    driver.send(f"REQ 3 START {ids(COMMON)} 3 snap=700:middle")
    driver.run()
    taken = {event["name"]: event["position"] for event in events_of(driver.items, "snapshot")}
    assert taken == {"border": 640, "middle": 700}
    assert sum(computed(driver).values()) <= 1000 + 4 * PAGE + 3 * len(driver.plans)
    driver.send(f"REQ 4 RESTORE middle {ids(COMMON)} 3")
    driver.run()
    assert tokens_of(driver.items, 4) == tokens_of(driver.items, 1)


@pytest.mark.parametrize("restored", [2, 3])
def test_who_starts_from_a_snapshot_shares_too(restored: int) -> None:
    driver = Driver(slots=3, context=1280, prefill_tokens=100)
    driver.send(f"REQ 9 START {ids(COMMON[:500])} 1 snap=500:begin")
    driver.run()
    for req_id in (2, 3):
        verb = "RESTORE begin" if req_id == restored else "START"
        driver.send(f"REQ {req_id} {verb} {ids(COMMON)} 3")
    driver.plans.clear()
    driver.run()
    assert 500 <= sum(computed(driver).values()) <= 500 + PAGE + len(driver.plans)
    expected = alone(f"REQ 1 START {ids(COMMON)} 3", context=1280)
    assert tokens_of(driver.items, 2) == tokens_of(driver.items, 3) == expected


def test_what_restore_found_on_the_way_counts_for_nobody() -> None:
    driver = Driver(slots=2, context=1280)
    driver.send(f"REQ 9 START {ids(COMMON[:20])} 1 snap=20:begin")
    driver.run()
    before = driver.reply("STATS")
    driver.send(f"REQ 1 START {ids([7] * 1000)} 3")
    driver.send(f"REQ 2 RESTORE begin {ids(COMMON[:20], [8] * 980)} 3")
    driver.run()
    driver.send(f"REQ 3 START {ids(COMMON)} 3")
    driver.send(f"REQ 4 RESTORE begin {ids(COMMON)} 3")
    driver.run()
    after = driver.reply("STATS")
    found = {end["req"]: end["cached_tokens"] for end in events_of(driver.items, "end")}
    assert found[4] > 900
    assert after["prefix_tokens"] - before["prefix_tokens"] == found[3]
    assert after["prefix_hits"] - before["prefix_hits"] == (found[3] > 0)


def test_a_page_that_a_snapshot_shares_is_not_written_again() -> None:
    driver = Driver(slots=2, context=1280, prefill_tokens=30)
    driver.send(f"REQ 1 START {ids(COMMON[:60])} 3")
    driver.send(f"REQ 2 START {ids(COMMON[:60])} 3")
    driver.step()
    driver.send("SLOT 1 SNAPSHOT mine")
    driver.run()
    assert computed(driver)[2] > 50
    driver.send("FREE_SNAPSHOT mine")
    assert tokens_of(driver.items, 1) == tokens_of(driver.items, 2)


def test_pages_are_taken_at_twice_the_way_or_at_its_end() -> None:
    driver = Driver(slots=2, context=4096, prefill_tokens=129)
    text = list(range(1, 3001))
    start(driver, 2, text)
    driver.run()
    moved = [move for plan in driver.plans for move in plan.moves if isinstance(move, Seat)]
    assert 3 <= len(moved) <= 8
    lengths = [len(move.ids) for move in moved]
    assert all(later >= 2 * earlier for earlier, later in pairwise(lengths[:-1]))
    assert lengths[-1] == 2999


def test_what_was_known_may_be_given_away_before_it_is_taken() -> None:
    driver = Driver(slots=3, context=1280, pages=22, prefill_tokens=200)
    lines = start(driver, 2, COMMON[:700])
    for _ in range(3):
        driver.step()
    second = driver.session.live[2]
    assert second.filed > second.position, "it waits, and has not taken what is known"
    driver.send("CANCEL 1")
    assert driver.reply(f"REQ 3 START {ids([7] * 630)} 3")["slot"] is not None
    assert second.node is not None and not second.node.known
    driver.run()
    assert tokens_of(driver.items, 2) == alone(lines[1], context=1280)


def feeding() -> NullEngine:
    """What moves on in it computes everything again."""
    engine = NullEngine(3, 1280)
    engine.info = replace(engine.info, seats_feed=True)
    return engine


@pytest.mark.parametrize(
    "named", [{"reuse": False}, {"engine": NullEngine(3, 1280, True), "states": 4}, {"engine": feeding()}]
)
def test_each_computes_its_own_where_nothing_is_shared_on_the_way(named: dict[str, object]) -> None:
    driver = Driver(slots=3, context=1280, **named)
    start(driver, 3, COMMON)
    driver.run()
    assert set(computed(driver).values()) == {1000}
