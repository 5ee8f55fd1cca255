"""Steps by hand: what PEEK shows, PROBE compares and TARGET_STEP does."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

import pytest
from driver import Driver, alone, limits, signals_of, terminal_of, tokens_of
from dump import state_of
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import PlanKind, Row, RowResult
from paceline.protocol import CANCELLED, DONE, YIELD, Message


class Crooked:
    """An engine whose logits depend on the company, or that fails for one slot, or that ends every request."""

    def __init__(self, company: bool = False, failing: int | None = None) -> None:
        self._inner = NullEngine()
        self.info = self._inner.info
        self.commit = self._inner.commit
        self._company, self._failing = company, failing

    def step(self, rows: Sequence[Row]) -> tuple[list[RowResult], int]:
        if any(row.slot == self._failing and row.position > 1 for row in rows):
            raise RuntimeError("broken")
        results, _ = self._inner.step(rows)
        if self._company:
            results = [RowResult(result.tokens, bytes([len(rows)])) for result in results]
        return results, 11

    def meanwhile(self, work: Callable[[], None]) -> bool:
        return self._inner.meanwhile(work)


@pytest.fixture
def driver() -> Driver:
    """Requests 1, 2, 3 are parked at positions 3, 4, 5; 4 prefills; 5 waits."""
    driver = Driver(limits(slots=4, prefill_tokens=3, step_tokens=3))
    for req_id, prompt in ((1, "1,2"), (2, "1,2,3"), (3, "1,2,3,4")):
        driver.send(f"REQ {req_id} START ids:{prompt} 9 2")
    driver.run()
    driver.send(f"REQ 4 START ids:{','.join('9' * 20)} 9 2")
    driver.send("REQ 5 START ids:1 9 2")
    return driver


def test_peek_shows_and_changes_nothing(driver: Driver) -> None:
    before = state_of(driver.session)
    reply = driver.reply("SCHED_BATCH_PEEK")
    assert reply["rows"] == [
        {"req": 1, "slot": 0, "epoch": 1, "position": 3, "remaining": 7},
        {"req": 2, "slot": 1, "epoch": 1, "position": 4, "remaining": 7},
        {"req": 3, "slot": 2, "epoch": 1, "position": 5, "remaining": 7},
    ]
    assert reply["skipped"] == [{"req": 4, "state": "prefill"}, {"req": 5, "state": "queued"}]
    cut = driver.reply("SCHED_BATCH_PEEK 1")
    assert [row["req"] for row in cut["rows"]] == [1]
    assert cut["skipped"][:2] == [{"req": 2, "state": "parked"}, {"req": 3, "state": "parked"}]
    assert state_of(driver.session) == before


def test_probe_compares_and_changes_nothing(driver: Driver) -> None:
    requests = driver.reply("LIST_REQUESTS")["requests"]
    tokens = [alone(f"REQ 1 START ids:{prompt} 9")[2] for prompt in ("1,2", "1,2,3", "1,2,3,4")]
    reply = driver.ask("REQ 9 SCHED_BATCH_PROBE")
    assert reply["mismatches"] == 0
    assert reply["rows"] == [
        {"req": n, "slot": n - 1, "epoch": 1, "position": n + 2, "batched": token, "single": token, "equal": True}
        for n, token in enumerate(tokens, 1)
    ]
    plan = driver.plans[-1]
    assert (plan.kind, [len(rows) for rows in plan.batches]) == (PlanKind.PROBE, [3, 1, 1, 1])
    assert driver.reply("LIST_REQUESTS")["requests"] == requests
    assert driver.ask("SCHED_BATCH_PROBE")["rows"] == reply["rows"]


def test_target_step_is_a_turn_of_one_token(driver: Driver) -> None:
    assert driver.send("REQ 9 SCHED_BATCH_TARGET_STEP") == []
    assert driver.session.holding
    items = driver.step()
    assert driver.plans[-1].kind is PlanKind.TARGET
    assert not driver.session.holding
    reply = items[-1]
    assert isinstance(reply, Message) and reply.req_id == 9
    assert reply.body["weight_bytes"] == 0 and reply.body["ms"] > 0
    assert [signals_of(items, req_id) for req_id in (1, 2, 3)] == [[YIELD]] * 3
    assert reply.body["rows"] == [
        {"req": n, "slot": n - 1, "position": n + 3, "token": tokens_of(items, n)[0], "remaining": 6} for n in (1, 2, 3)
    ]
    assert driver.reply("SCHED_DRAIN")["live"] == 5
    driver.run()
    for req_id, prompt in ((1, "1,2"), (2, "1,2,3"), (3, "1,2,3,4"), (5, "1")):
        assert tokens_of(driver.items, req_id) == alone(f"REQ 1 START ids:{prompt} 9")


def test_a_row_that_holds_a_grant_does_not_yield(driver: Driver) -> None:
    driver.send("REQ 1 CONTINUE 2")
    driver.ask("SCHED_BATCH_TARGET_STEP")
    assert signals_of(driver.items, 1) == [YIELD]
    assert signals_of(driver.items, 2) == [YIELD, YIELD]
    driver.run()
    assert len(tokens_of(driver.items, 1)) == 4


def test_when_max_cuts_the_list_the_others_come_next(driver: Driver) -> None:
    taken = [[row["req"] for row in driver.ask("SCHED_BATCH_TARGET_STEP 2")["rows"]] for _ in range(3)]
    assert taken == [[1, 2], [3, 1], [2, 3]]


def test_tail_takes_those_with_one_token_left(driver: Driver) -> None:
    assert driver.ask("SCHED_BATCH_TARGET_TAIL")["rows"] == []
    driver.send("CANCEL 4")
    driver.send("CANCEL 5")
    driver.send("REQ 2 CONTINUE 6")
    driver.run()
    (row,) = driver.ask("SCHED_BATCH_TARGET_TAIL")["rows"]
    assert (row["req"], row["remaining"]) == (2, 0)
    assert row["token"] == alone("REQ 1 START ids:1,2,3 9")[-1]
    assert terminal_of(driver.items, 2) == DONE


@pytest.mark.parametrize("command", ["SCHED_BATCH_PROBE", "SCHED_BATCH_TARGET_STEP", "SCHED_BATCH_TARGET_TAIL 2"])
def test_no_rows_are_answered_at_once(command: str) -> None:
    driver = Driver()
    assert driver.reply(command)["rows"] == []
    assert not driver.session.holding


def test_a_row_that_stops_has_no_token() -> None:
    tokens = alone("REQ 1 START ids:1 9")
    driver = Driver()
    driver.send(f"REQ 1 START ids:1 9 1 stop={tokens[1]}")
    driver.run()
    (row,) = driver.ask("SCHED_BATCH_TARGET_STEP")["rows"]
    assert row == {"req": 1, "slot": 0, "position": 2, "token": None, "remaining": 0, "ended": "stop"}


def test_a_probe_sees_that_company_matters() -> None:
    driver = Driver(engine=Crooked(company=True))
    driver.send("REQ 1 START ids:1 9 1")
    driver.send("REQ 2 START ids:1 9 1")
    driver.run()
    reply = driver.ask("SCHED_BATCH_PROBE")
    assert reply["mismatches"] == 2
    assert [row["equal"] for row in reply["rows"]] == [False, False]


def test_a_row_that_fails_in_a_probe_and_in_a_step() -> None:
    driver = Driver(engine=Crooked(failing=1))
    driver.send("REQ 1 START ids:1,2 9 1")
    driver.send("REQ 2 START ids:1,2 9 1")
    driver.run()
    reply = driver.ask("SCHED_BATCH_PROBE")
    assert reply["mismatches"] == 1
    assert (reply["rows"][1]["batched"], reply["rows"][1]["error"]) == (None, "RuntimeError: broken")
    assert [row.get("ended") for row in driver.ask("SCHED_BATCH_TARGET_STEP")["rows"]] == [None, "failed"]
    assert tokens_of(driver.items, 1) == alone("REQ 1 START ids:1,2 9")[:2]


def test_rows_point_at_their_pages(driver: Driver) -> None:
    driver.ask("SCHED_BATCH_TARGET_STEP")
    tables = [row.table for row in driver.plans[-1].batches[0]]
    assert all(isinstance(table, array) for table in tables)
    pages = [page for table in tables for page in table]
    assert len(set(pages)) == len(pages)


def test_a_target_step_at_the_end_of_input() -> None:
    driver = Driver()
    driver.send("REQ 1 START ids:1 9 2")
    driver.run()
    driver.send("SCHED_BATCH_TARGET_STEP")
    driver.session.lifecycle.grants.input_ended = True
    driver.step()
    assert terminal_of(driver.items, 1) == CANCELLED
