"""Prefill that stalls nobody, and prompts that are not computed twice."""

from __future__ import annotations

import math

import pytest
from driver import Driver, alone, events_of, tokens_of
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Row


def rows_of(driver: Driver) -> list[Row]:
    return [row for plan in driver.plans for batch in plan.batches for row in batch]


PROMPT = ",".join(map(str, range(1, 601)))


def test_a_newcomer_among_fifteen_stalls_nobody() -> None:
    driver = Driver(slots=16, context=1024, auto=True)
    for req_id in range(1, 16):
        driver.send(f"REQ {req_id} START ids:{req_id} 400")
    driver.step()
    driver.send(f"REQ 16 START ids:{PROMPT} 5")
    steps = 0
    while not tokens_of(driver.items, 16):
        items = driver.step()
        steps += 1
        for req_id in range(1, 16):
            assert len(tokens_of(items, req_id)) == 1, "an incumbent missed a step"
    assert steps <= math.ceil(600 / (64 - 15)) + 2
    driver.run()
    assert tokens_of(driver.items, 16) == alone(f"REQ 1 START ids:{PROMPT} 5", context=1024)


def test_a_chunk_says_what_follows_it() -> None:
    driver = Driver(slots=1, context=1024, prefill_tokens=100)
    driver.send(f"REQ 1 START ids:{PROMPT} 3")
    driver.run()
    chunks = [row for row in rows_of(driver) if not row.outputs]
    assert [row.following for row in chunks] == [row.position + len(row.tokens) + 1 for row in chunks]
    assert len(chunks) == 5


def test_short_prompts_share_a_step() -> None:
    driver = Driver(slots=8, context=256)
    for req_id in range(1, 9):
        driver.send(f"REQ {req_id} START ids:{','.join(map(str, range(req_id, req_id + 60)))} 1")
    driver.run()
    assert len(driver.plans) == 1


def test_cancel_inside_a_prefill_takes_effect_before_the_next_step() -> None:
    driver = Driver(slots=1, context=1024, prefill_tokens=100)
    driver.send(f"REQ 1 START ids:{PROMPT} 5")
    driver.step()
    driver.send("CANCEL 1")
    assert driver.step() == []
    assert len(driver.plans) == 1


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_known_beginning_is_not_computed_again(recurrent: bool) -> None:
    driver = Driver(slots=2, context=1280, states=8, engine=NullEngine(2, 1280, recurrent))
    common = ",".join(map(str, range(1, 1001)))
    driver.send(f"REQ 1 START ids:{common},5,6 3")
    driver.run()
    driver.send(f"REQ 2 START ids:{common},7,8 3")
    driver.run()
    driver.send(f"REQ 3 START ids:{common},9 3")
    driver.run()
    cached = [body["cached_tokens"] for body in events_of(driver.items, "end")]
    assert cached == ([0, 960, 960] if recurrent else [0, 1000, 1000])
    fed = [sum(len(row.tokens) for row in rows_of(driver) if row.req_id == r) for r in (2, 3)]
    assert fed == [1002 - cached[1] + 2, 1001 - cached[2] + 2]
    for req_id, rest in ((2, "7,8"), (3, "9")):
        assert tokens_of(driver.items, req_id) == alone(f"REQ 1 START ids:{common},{rest} 3", context=1280)
    stats = driver.reply("STATS")
    assert (stats["prefix_hits"], stats["prefix_tokens"]) == (2, sum(cached))


def test_a_conversation_goes_on_where_its_last_answer_ended() -> None:
    """A model with recurrent layers keeps its state at the end of a request, wherever that is."""
    for recurrent in (False, True):
        driver = Driver(slots=1, context=1280, states=8, engine=NullEngine(1, 1280, recurrent))
        ids = list(range(1, 90))
        for req_id in range(1, 5):
            text = ",".join(map(str, ids))
            driver.send(f"REQ {req_id} START ids:{text} 7")
            driver.run()
            answer = tokens_of(driver.items, req_id)
            assert answer == alone(f"REQ 1 START ids:{text} 7", context=1280)
            ids += [*answer, 3, 4, 5]
        cached = [body["cached_tokens"] for body in events_of(driver.items, "end")]
        assert cached == [0, 95, 105, 115], "all that was fed before"


def test_texts_that_part_early_share_what_they_share_also_in_recurrent_models() -> None:
    """The second one finds out where they part, and keeps a state there; the third one starts from it."""
    driver = Driver(slots=1, context=1280, states=8, engine=NullEngine(1, 1280, recurrent=True))
    common = ",".join(map(str, range(1, 300)))
    for req_id in (1, 2, 3):
        driver.send(f"REQ {req_id} START ids:{common},{','.join([str(req_id + 300)] * 400)} 3")
        driver.run()
    assert [body["cached_tokens"] for body in events_of(driver.items, "end")] == [0, 0, 256]


def test_one_that_still_runs_is_shared_as_well() -> None:
    driver = Driver(slots=2, context=1024)
    driver.send(f"REQ 1 START ids:{PROMPT} 100")
    driver.step()
    driver.step()
    driver.send(f"REQ 2 START ids:{PROMPT},5 9")
    driver.run()
    assert [body["cached_tokens"] for body in events_of(driver.items, "end")] == [600, 0]
    assert tokens_of(driver.items, 2) == alone(f"REQ 1 START ids:{PROMPT},5 9", context=1024)
    assert driver.session.lifecycle.cache.pages.used == 0


def test_reuse_can_be_left_out() -> None:
    driver = Driver(slots=1, context=1024, reuse=False)
    for req_id in (1, 2):
        driver.send(f"REQ {req_id} START ids:{PROMPT} 5")
        driver.run()
    assert [body["cached_tokens"] for body in events_of(driver.items, "end")] == [0, 0]
    assert driver.session.lifecycle.cache.pages.free == len(driver.session.lifecycle.cache.pages)


def test_pages_that_were_evicted_while_an_equal_text_ran_are_known_again_by_its_own() -> None:
    driver = Driver(slots=3, context=320, pages=9)
    text = "ids:1,2,3"  # too few to wait for: each has its own first page, and the second one's is known as the first's
    driver.send(f"REQ 1 START {text} 100")
    driver.send(f"REQ 2 START {text} 180")  # 3 pages
    while len(driver.session.live) == 2:
        driver.step()
    driver.send("REQ 3 START ids:9,9 250")  # 4 of those that are left
    driver.send("REQ 4 START ids:8,8 100")  # and 2
    driver.run()
    tokens = tokens_of(driver.items, 2)
    assert tokens == alone(f"REQ 1 START {text} 180", context=320)
    driver.send(f"REQ 5 START {text},{','.join(map(str, tokens[:150]))} 1")
    driver.run()
    assert events_of(driver.items, "end")[-1]["cached_tokens"] == 152
