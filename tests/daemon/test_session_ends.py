"""How requests end before their time: cancelled, at the end of input, at a signal, with everything."""

from __future__ import annotations

import pytest
from driver import Driver, alone, signals_of, terminal_of, tokens_of
from paceline.daemon.execution import execute
from paceline.protocol import CANCELLED, DONE, YIELD, Frame, Message


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_cancel_in_whatever_state(steps: int) -> None:
    driver = Driver(slots=1, prefill_tokens=2)
    driver.send("REQ 1 START ids:1,2,3 5 1")
    driver.send("REQ 2 START ids:1 5")
    assert driver.reply("REQ 9 CANCEL 2")["state"] == "queued"
    for _ in range(steps):
        driver.step()
    first, *rest = driver.send("CANCEL 1")
    assert isinstance(first, Message)
    assert first.body == {"re": 4, "ok": True, "state": "parked" if steps == 3 else "prefill"}
    assert isinstance(rest[0], Message) and rest[0].body["reason"] == "cancelled"
    assert rest[1] == Frame(1, CANCELLED)
    assert driver.step() == []
    assert driver.reply("REQ 1 CONTINUE 1")["code"] == "not_active"
    assert driver.reply("REQ 1 START ids:1 1")["epoch"] == 3


def test_a_cancelled_request_cannot_go_on_in_a_slot_that_has_a_new_owner() -> None:
    driver = Driver(slots=1)
    driver.send("REQ 1 START ids:1 9 1")
    driver.run()
    driver.send("CANCEL 1")
    driver.send("REQ 2 START ids:1 9 1")
    assert driver.reply("REQ 1 SLOT 0 CONTINUE 1")["code"] == "not_active"
    assert driver.reply("REQ 2 SLOT 0 CONTINUE 1 epoch=1")["code"] == "stale"
    assert driver.reply("REQ 2 SLOT 0 CONTINUE 1 epoch=3")["ok"]


def test_a_late_result_reaches_nobody() -> None:
    driver = Driver(slots=1)
    driver.send("REQ 1 START ids:1 9")
    plan = driver.session.next_step(0.0)
    assert plan is not None
    results = execute(driver.engine, plan, driver.clock)
    driver.send("CANCEL 1")
    driver.send("REQ 1 START ids:5,6 4")
    assert driver.session.finish(plan, results, 1.0) == []
    assert driver.session.counters.stale_results == 1
    driver.run()
    assert tokens_of(driver.items, 1) == alone("REQ 1 START ids:5,6 4")


def test_at_the_end_of_input_grants_finish_and_the_queue_gets_its_turn() -> None:
    driver = Driver(slots=1)
    for req_id in (1, 2, 3):
        driver.send(f"REQ {req_id} START ids:{req_id} 5 {2 + req_id}")
    driver.end()
    assert [len(tokens_of(driver.items, req_id)) for req_id in (1, 2, 3)] == [3, 4, 5]
    assert [terminal_of(driver.items, req_id) for req_id in (1, 2, 3)] == [CANCELLED, CANCELLED, DONE]
    assert signals_of(driver.items, 1) == [YIELD, CANCELLED]
    assert driver.session.done


def test_at_the_end_of_input_a_drain_goes_on_to_its_end() -> None:
    driver = Driver()
    driver.send("REQ 1 START ids:1 9 2")
    driver.send("SCHED_DRAIN")
    driver.end()
    assert terminal_of(driver.items, 1) == DONE
    assert driver.items[-1] == Message(0, {"event": "drained"})


@pytest.mark.parametrize("held", ["WAIT", "SCHED_BATCH_PROBE", "SCHED_BATCH_TARGET_STEP"])
def test_shutdown_ends_everything_and_answers_what_was_held(held: str) -> None:
    driver = Driver(slots=2)
    driver.send("REQ 1 START ids:1 9 2")
    driver.run()
    driver.send("REQ 2 START ids:1 9")
    driver.send("REQ 3 START ids:1 9")
    driver.send(f"REQ 8 {held}")
    items = driver.take(driver.session.shutdown(driver.clock()))
    assert [terminal_of(items, req_id) for req_id in (1, 2, 3)] == [CANCELLED] * 3
    assert [item.body["ok"] for item in items if isinstance(item, Message) and item.req_id == 8] == [True]
    assert driver.session.done
    assert driver.step() == []


def test_a_failure_of_everything_says_why() -> None:
    driver = Driver()
    driver.send("REQ 1 START ids:1 9 2")
    end, terminal = driver.session.fail_all("it broke", 1.0)
    assert isinstance(end, Message) and terminal == Frame(1, -6)
    assert (end.body["reason"], end.body["code"], end.body["error"]) == ("failed", "internal", "it broke")
    assert (end.body["ttft_ms"], end.body["tps"], end.body["prompt_tps"], end.body["mean_rows"]) == (None,) * 4
    assert end.body["queue_ms"] == 0.0
