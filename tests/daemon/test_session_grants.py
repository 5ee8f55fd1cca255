"""Who is granted more tokens, and when: by turns, by drains, in auto mode; and what WAIT waits for."""

from __future__ import annotations

from driver import Driver, alone, signals_of, tokens_of
from paceline.protocol import DONE, YIELD, Message


def test_sched_step_grants_a_quantum_to_the_next_in_turn() -> None:
    driver = Driver()
    assert driver.reply("SCHED_STEP")["req"] is None
    for req_id in (1, 2, 3):
        driver.send(f"REQ {req_id} START ids:{req_id} 9 2")
    driver.run()
    order = []
    for _ in range(4):
        order.append(driver.reply("REQ 7 SCHED_STEP")["req"])
        assert len(tokens_of(driver.run(), order[-1])) == 2
    assert order == [1, 2, 3, 1]
    driver.send("REQ 2 CONTINUE 2")
    assert driver.reply("SCHED_STEP")["req"] == 3  # 2 holds a grant


def test_a_drain_ends_everything_and_yields_all_the_same() -> None:
    driver = Driver(slots=2)
    driver.send("REQ 4 SLOT 0 START ids:1,2 6 2")
    driver.send("REQ 5 SLOT 1 START ids:3 4 2")
    driver.run()
    assert driver.reply("REQ 77 SCHED_DRAIN")["live"] == 2
    driver.step()
    driver.send("REQ 6 START ids:4 5 2")
    driver.send("SCHED_DRAIN")
    items = driver.run()
    assert signals_of(driver.items, 4) == [YIELD, YIELD, DONE]
    assert signals_of(driver.items, 5) == [YIELD, DONE]
    assert signals_of(driver.items, 6) == [YIELD, YIELD, DONE]
    assert items[-2:] == [Message(77, {"event": "drained"}), Message(0, {"event": "drained"})]
    assert driver.send("SCHED_DRAIN")[1] == Message(0, {"event": "drained"})


def test_a_batch_drain_caps_the_seats_while_it_goes_on() -> None:
    driver = Driver(slots=4)
    for req_id in (1, 2, 3, 4):
        driver.send(f"REQ {req_id} START ids:{req_id} 9 2")
    driver.run()
    driver.plans.clear()
    driver.send("SCHED_BATCH_DRAIN 2")
    driver.run()
    assert max(len(plan.batches[0]) for plan in driver.plans) == 2
    for req_id in (1, 2, 3, 4):
        assert tokens_of(driver.items, req_id) == alone(f"REQ {req_id} START ids:{req_id} 9")
    assert driver.session.lifecycle.grants.seats == 4


def test_auto_regrants_until_it_is_off() -> None:
    driver = Driver()
    driver.send("REQ 1 START ids:1 100 2")
    driver.run()
    assert driver.reply("SCHED_AUTO on")["ok"]
    for _ in range(5):
        driver.step()
    driver.send("SCHED_AUTO off")
    driver.run()
    assert len(tokens_of(driver.items, 1)) == 8
    assert signals_of(driver.items, 1) == [YIELD] * 4


def test_wait_is_answered_when_nothing_is_due() -> None:
    driver = Driver()
    assert driver.reply("WAIT")["step"] == 0
    driver.send("REQ 1 START ids:1 9 3")
    assert driver.send("REQ 5 WAIT") == []
    assert driver.session.holding
    items = driver.run()
    assert items[-1] == Message(5, {"re": 3, "ok": True, "step": 3})
    assert not driver.session.holding
