"""Who waits for pages, who passes whom, and what keeps nobody waiting: through the session."""

from __future__ import annotations

from typing import Any

import pytest
from driver import Driver, alone, events_of, limits, terminal_of, tokens_of
from dump import state_of
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.waiting import PASSES
from paceline.protocol import DONE

LONG = ",".join(map(str, range(1, 101)))


def states(one: Driver) -> dict[int, str]:
    return {row["req"]: row["state"] for row in one.reply("LIST_REQUESTS")["requests"]}


def with_a_snapshot_of_two_pages(**named: Any) -> Driver:
    """And request 2, which needs all eight pages."""
    one = Driver(limits(4, 4, 512, pages=8, **named))
    one.send(f"REQ 1 START ids:{LONG} 20 2")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send("CANCEL 1")
    assert one.reply("REQ 2 START ids:5 500")["state"] == "queued"
    return one


@pytest.mark.parametrize("reuse", [True, False])
def test_one_that_only_a_snapshot_keeps_out_keeps_nobody_out(reuse: bool) -> None:
    one = with_a_snapshot_of_two_pages(reuse=reuse)
    for req_id in range(3, 2 * PASSES):
        assert one.reply(f"REQ {req_id} START ids:9,{req_id} 5")["slot"] == 0
        one.run()
    assert states(one) == {2: "queued"}
    assert one.reply("WAIT")["ok"], "nothing is due"
    one.send("REQ 7 SCHED_DRAIN")
    assert not events_of(one.run(), "drained"), "it is live"
    one.send("FREE_SNAPSHOT a")
    one.run()
    assert tokens_of(one.items, 2) == alone("REQ 2 START ids:5 500", context=512)
    assert len(events_of(one.items, "drained")) == 1


def test_one_that_shares_what_the_snapshot_holds_has_its_turn() -> None:
    one = Driver(limits(2, 2, 512, pages=8))
    one.send(f"REQ 1 START ids:{LONG} 20 2")
    one.run()
    one.send("SLOT 0 SNAPSHOT_THIN a 0 64")
    assert one.reply(f"REQ 2 START ids:{LONG},5 400")["state"] == "queued"
    later = range(3, 2 * PASSES)
    for req_id in later:
        one.send(f"REQ {req_id} START ids:9,{req_id} 5")
        one.run()
    assert [req_id for req_id in later if tokens_of(one.items, req_id)] == [*range(3, 3 + PASSES)]
    one.send("CANCEL 1")
    one.run()
    assert len(tokens_of(one.items, 2)) == 400 and not states(one)


def test_one_that_names_its_slot_passes_those_who_wait_as_others_do() -> None:
    """Two pages come and go; request 2 needs four, and has them when it was passed often enough."""
    one = Driver(limits(4, 4, 256, pages=6, reuse=False))
    live = [1, 3]
    for req_id in live:
        one.send(f"REQ {req_id} START ids:1 120 1")
    one.run()
    assert one.reply("REQ 2 START ids:2 250")["state"] == "queued"
    for req_id in range(10, 10 + PASSES):
        free = one.session.lifecycle.admission.slots.free()
        assert one.reply(f"REQ {req_id} SLOT {free} START ids:5 120 1")["ok"]
        live.append(req_id)
        one.send(f"CANCEL {live.pop(0)}")
        one.run()
    reply = one.reply(f"REQ 99 SLOT {one.session.lifecycle.admission.slots.free()} START ids:5 120 1")
    assert (reply["code"], reply["error"]) == (
        "kv_budget",
        "the cache lacks 2048 bytes for this request: pages gather for request 2, which is next; "
        "retry when it has been admitted",
    )
    one.send(f"CANCEL {live.pop(0)}")
    one.run()
    assert len(tokens_of(one.items, 2)) == 250


@pytest.mark.parametrize(("cancel", "when"), [(False, "a request has ended"), (True, "a snapshot is freed")])
def test_one_that_names_its_slot_is_told_what_it_can_wait_for(cancel: bool, when: str) -> None:
    one = Driver(limits(2, 2, 512, pages=8))
    one.send(f"REQ 1 START ids:{LONG} 20 2")
    one.run()
    if cancel:
        one.send("SLOT 0 SNAPSHOT a")
        one.send("CANCEL 1")
    reply = one.reply("REQ 2 SLOT 1 START ids:5 500")
    assert (reply["code"], reply["error"]) == (
        "kv_budget",
        f"the cache lacks 1024 bytes for this request: retry when {when}",
    )


def test_the_queue_is_first_in_first_out_and_admits_at_an_end() -> None:
    driver = Driver(slots=1, queue=2)
    driver.send("REQ 1 START ids:1 3")
    for req_id in (2, 3):
        reply = driver.reply(f"REQ {req_id} START ids:1 3")
        assert (reply["slot"], reply["epoch"], reply["state"]) == (None, None, "queued")
    assert driver.reply("REQ 4 START ids:1 3")["code"] == "queue_full"
    assert driver.reply("REQ 2 SLOT 0 CONTINUE 1")["code"] == "stale"
    assert driver.reply("REQ 2 CONTINUE 1 epoch=1")["error"].endswith("waits in the queue and holds no slot")
    driver.run()
    admitted = [(body["req"], body["slot"], body["epoch"]) for body in events_of(driver.items, "admitted")]
    assert admitted == [(2, 0, 3), (3, 0, 5)]
    assert [terminal_of(driver.items, req_id) for req_id in (1, 2, 3)] == [DONE] * 3
    assert driver.session.lifecycle.admission.slots.epochs == [6]


def test_a_small_start_passes_a_big_one_that_waits_for_pages() -> None:
    driver = Driver(slots=2, context=128, pages=3)
    driver.send("REQ 1 START ids:1 60")
    driver.send("REQ 2 SLOT 1 START ids:1 60")
    driver.send("REQ 3 START ids:1 100")
    driver.send("CANCEL 2")
    assert driver.reply("LIST_REQUESTS")["requests"][-1]["slot"] == 1  # 3 was admitted: two pages are free
    driver.send("REQ 4 START ids:1 100")
    driver.send("CANCEL 1")
    assert driver.reply("REQ 5 START ids:1 5")["state"] == "prefill"  # there is a page for 5, not for 4
    driver.run()
    assert [body["req"] for body in events_of(driver.items, "admitted")] == [3, 4]


def test_too_few_pages() -> None:
    driver = Driver(slots=2, context=256, pages=3)
    never = driver.reply("REQ 1 START ids:1 200")
    assert never["code"] == "kv_budget"
    assert "512 bytes" in never["error"] and "a retry cannot help" in never["error"]
    driver.send("REQ 2 START ids:1 100")
    later = driver.reply("REQ 3 SLOT 1 START ids:1 100")
    assert later["code"] == "kv_budget"
    assert "retry when a request has ended" in later["error"]
    assert driver.reply("REQ 3 START ids:1 100")["state"] == "queued"
    assert driver.session.lifecycle.cache.pages.used == 2


def test_the_last_token_needs_no_page() -> None:
    driver = Driver(slots=1, context=256, pages=1)
    assert driver.reply("REQ 1 START ids:1 64")["ok"]
    driver.run()
    assert len(tokens_of(driver.items, 1)) == 64


def test_what_is_refused_does_not_make_a_kept_state_younger() -> None:
    one = Driver(limits(2, 2, 512, pages=8, states=4), NullEngine(2, 512, recurrent=True))
    for req_id in (1, 2):
        one.send(f"REQ {req_id} START ids:{req_id}{',7' * 69} 2")
        one.run()
    one.send("REQ 3 START ids:9 150 1")
    one.run()
    assert len(list(one.session.lifecycle.cache.tree.kept)) == 4
    before = state_of(one.session)
    assert one.reply(f"REQ 4 SLOT 1 START ids:1{',7' * 69},8 400")["code"] == "kv_budget"
    assert state_of(one.session) == before


@pytest.mark.parametrize("recurrent", [False, True])
def test_what_another_computes_makes_room(recurrent: bool) -> None:
    """Who waits for four pages of three needs two when the other's prompt is known, though that one goes on."""
    one = Driver(limits(2, 2, 512, pages=6, states=4 * recurrent), NullEngine(2, 512, recurrent))
    prompt = ",".join(map(str, range(7, 7 + 129)))
    assert one.reply(f"REQ 1 START ids:{prompt} 64 8")["slot"] == 0
    assert one.reply(f"REQ 2 START ids:{prompt} 127 8")["state"] == "queued"
    one.run()
    assert states(one) == {1: "parked", 2: "parked"}
    assert one.session.lifecycle.admission.slots.epochs == [1, 1]


def test_what_concerns_nobody_who_waits_asks_nobody_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue may be long, and pages fill in every second step."""
    one = Driver(limits(2, 2, 512, pages=8))
    one.send(f"REQ 1 START ids:{LONG} 400")
    assert one.reply("REQ 2 START ids:5,6,7 300")["state"] == "queued"
    asked = []
    fits = one.session.lifecycle.cache.fits
    monkeypatch.setattr(one.session.lifecycle.cache, "fits", lambda request: asked.append(request) or fits(request))
    for _ in range(390):
        one.step()
    assert not asked
    one.run()
    assert len(asked) == 1
    assert len(tokens_of(one.items, 2)) == 300


def test_predictions_of_those_who_wait_count_with_their_prompts() -> None:
    driver = Driver(slots=1, queue_tokens=6)
    driver.send("REQ 1 START ids:1 9")
    assert driver.reply("REQ 2 START ids:1,2 3 predict=1,2,3,4,5")["code"] == "queue_full"
    assert driver.reply("REQ 2 START ids:1,2 3 predict=1,2,3,4")["ok"]
    assert driver.reply("REQ 3 START ids:1 3")["code"] == "queue_full"
    driver.run()
    assert driver.reply("REQ 3 START ids:1 3")["ok"]
