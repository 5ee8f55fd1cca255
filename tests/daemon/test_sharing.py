"""Equal requests share a row: everyone has the tokens, the yields, and an end of their own."""

from __future__ import annotations

from typing import Any

import pytest
from driver import Driver, alone, events_of, signals_of, tokens_of
from paceline.protocol import CANCELLED, DONE, YIELD, Frame, PromptFile, Start

START = "START ids:1,2,3 9 4"


def driver(**named: Any) -> Driver:
    return Driver(slots=2, coalesce=True, auto=True, **named)


@pytest.mark.parametrize("steps", range(9))
def test_a_follower_gets_what_came_before_it_and_all_that_comes(steps: int) -> None:
    one = driver()
    one.send(f"REQ 1 {START}")
    for _ in range(steps):
        one.step()
    reply = one.reply(f"REQ 2 {START}")
    assert (reply["slot"], reply["epoch"], reply["with"], reply["prompt_tokens"]) == (None, None, 1, 3)
    one.run()
    frames = {
        req_id: [item.value for item in one.items if isinstance(item, Frame) and item.req_id == req_id]
        for req_id in (1, 2)
    }
    assert frames[1] == frames[2]
    assert tokens_of(one.items, 2) == alone("REQ 1 START ids:1,2,3 9")
    assert signals_of(one.items, 2) == [YIELD, YIELD, DONE]
    first, second = events_of(one.items, "end")
    assert (first["req"], second["req"], second["with"], second["tokens"]) == (1, 2, 1, 9)
    assert all(len(plan.batches[0]) == 1 for plan in one.plans)
    stats = one.reply("STATS")
    assert (stats["coalesced"], stats["accepted"], stats["ended"]) == (1, 2, 2)


def test_a_follower_counts_as_live() -> None:
    one = driver()
    for req_id in (1, 2, 3):
        one.send(f"REQ {req_id} {START}")
    assert one.reply("STATS")["requests"] == {"queued": 0, "prefill": 3, "decode": 0, "parked": 0}
    assert one.reply("SCHED_DRAIN")["live"] == 3
    one.send("CANCEL 1")
    assert one.reply("SCHED_DRAIN")["live"] == 2


def test_after_the_end_the_same_request_runs_by_itself() -> None:
    one = driver()
    one.send(f"REQ 1 {START}")
    one.run()
    assert one.reply(f"REQ 1 {START}")["slot"] == 0


@pytest.mark.parametrize(
    "other",
    [
        "START ids:1,2,4 9 4",
        "START ids:1,2,3 8 4",
        "START ids:1,2,3 9 3",
        "START ids:1,2,3 9 4 hash=1",
        "START ids:1,2,3 9 4 logprobs=1",
        "START ids:1,2,3 9 4 snap=2:a",
        "SLOT 1 START ids:1,2,3 9 4",
    ],
)
def test_only_equal_ones_share(other: str) -> None:
    one = driver()
    one.send(f"REQ 1 {START}")
    assert one.reply(f"REQ 2 {other}")["slot"] == 1


def test_chance_is_not_shared_unless_its_seed_is_given() -> None:
    for options, slot in (("temp=1", 1), ("temp=1 seed=5", None)):
        one = driver()
        one.send(f"REQ 1 {START} {options}")
        assert one.reply(f"REQ 2 {START} {options}")["slot"] == slot


def test_sharing_is_asked_for_and_is_for_auto_mode() -> None:
    for named in ({"coalesce": False, "auto": True}, {"coalesce": True, "auto": False}):
        one = Driver(slots=2, **named)  # type: ignore[arg-type]
        one.send(f"REQ 1 {START}")
        assert one.reply(f"REQ 2 {START}")["slot"] == 1


@pytest.mark.parametrize("steps", [0, 3])
def test_the_row_lives_until_its_last_listener_ends(steps: int) -> None:
    one = driver()
    one.send(f"REQ 1 {START}")
    for req_id in (2, 3):
        one.send(f"REQ {req_id} {START} priority=3")
    for _ in range(steps):
        one.step()
    assert one.reply("REQ 8 CANCEL 3")["state"] == ("decode" if steps else "prefill")
    assert one.reply("REQ 9 CANCEL 1")["ok"]
    assert [signals_of(one.items, req_id)[-1:] for req_id in (1, 3)] == [[CANCELLED]] * 2
    (row,) = one.reply("LIST_REQUESTS")["requests"]
    assert (row["req"], row["slot"], row["epoch"]) == (2, 0, 1)
    assert one.reply("LIST_TARGET_CACHE_SLOTS")["slots"][0]["owner"] == 2
    assert one.reply("CANCEL 1")["code"] == "not_active"
    one.session.check()
    one.run()
    assert tokens_of(one.items, 2) == alone("REQ 1 START ids:1,2,3 9")
    assert one.reply(f"REQ 1 {START}")["epoch"] == 3


def test_one_that_waits_is_shared_too() -> None:
    one = driver()
    one.send("REQ 1 START ids:1 200")
    one.send("REQ 2 START ids:2 200")
    one.send(f"REQ 3 {START}")
    one.send(f"REQ 4 {START}")
    one.send("CANCEL 3")
    one.send("CANCEL 1")
    one.run()
    assert tokens_of(one.items, 4) == alone("REQ 1 START ids:1,2,3 9")


def test_no_more_follow_than_may_wait() -> None:
    """Then an equal one is a request like any other: it has a slot, or waits, or is refused."""
    one = driver(queue=2)
    for req_id, state in ((1, "prefill"), (2, "prefill"), (3, "prefill"), (4, "prefill"), (5, "queued"), (6, "queued")):
        assert one.reply(f"REQ {req_id} {START}")["state"] == state
    assert one.reply(f"REQ 7 {START}")["code"] == "queue_full"
    rows = one.reply("LIST_REQUESTS")["requests"]
    assert {row["req"]: row.get("with") for row in rows} == {1: None, 2: 1, 3: 1, 4: None, 5: None, 6: None}
    one.send("CANCEL 2")
    assert one.reply(f"REQ 7 {START}")["with"] == 1
    one.run()
    assert {len(tokens_of(one.items, req_id)) for req_id in (1, 3, 4, 5, 6, 7)} == {9}
    one.session.check()


def test_a_priority_counts_as_long_as_somebody_has_it() -> None:
    def admitted(*lines: str) -> list[int]:
        one = driver()
        for req_id in (1, 2):
            one.send(f"REQ {req_id} START ids:{req_id} 200")
        one.send("REQ 3 START ids:3 9 priority=3")
        one.send("REQ 4 START ids:4 9")
        one.send("REQ 5 START ids:4 9 priority=5")
        for line in (*lines, "CANCEL 1"):
            one.send(line)
        one.run()
        return [body["req"] for body in events_of(one.items, "admitted")]

    assert admitted() == [4, 3]
    assert admitted("CANCEL 5") == [3, 4]
    assert admitted("CANCEL 4") == [5, 3]


def test_what_a_follower_may_not_do() -> None:
    one = driver()
    one.send(f"REQ 1 {START}")
    one.send(f"REQ 2 {START}")
    assert one.reply("REQ 2 CONTINUE 1")["code"] == "unsupported"
    assert one.reply("REQ 1 CONTINUE 1")["code"] == "unsupported"
    assert "shares the row of request 1" in one.reply("REQ 2 SLOT 0 CANCEL")["error"]
    assert one.reply(f"REQ 2 {START}")["code"] == "duplicate_request"
    rows = one.reply("LIST_REQUESTS")["requests"]
    assert [(row["req"], row["slot"], row.get("with")) for row in rows] == [(1, 0, None), (2, None, 1)]


def test_a_shared_row_goes_on_when_auto_ends_and_parks_when_it_is_alone() -> None:
    one = driver()
    one.send(f"REQ 1 {START}")
    one.send(f"REQ 2 {START}")
    one.send("SCHED_AUTO off")
    one.run()
    assert signals_of(one.items, 1) == signals_of(one.items, 2) == [YIELD, YIELD, DONE]
    one.send("SCHED_AUTO on")
    one.send(f"REQ 1 {START}")
    one.send(f"REQ 2 {START}")
    one.send("SCHED_AUTO off")
    one.send("CANCEL 2")
    one.run()
    assert one.reply("LIST_REQUESTS")["requests"][0]["state"] == "parked"


def test_one_that_was_granted_by_hand_is_not_shared_any_more() -> None:
    one = driver()
    one.send(f"REQ 1 {START}")
    one.send("REQ 1 CONTINUE 2")
    assert one.reply(f"REQ 2 {START}")["slot"] == 1


@pytest.mark.parametrize("command", ["SCHED_BATCH_TARGET_STEP", "SCHED_BATCH_TARGET_TAIL"])
@pytest.mark.parametrize("total", [3, 8])
def test_one_that_was_stepped_by_hand_is_not_shared_any_more(command: str, total: int) -> None:
    """It has yielded off the grid of its quanta."""
    one = driver()
    start = f"START ids:1,2,3 {total} 2"
    one.send(f"REQ 1 {start}")
    one.send("SCHED_AUTO off")
    one.run()
    assert one.ask(command)["rows"] or total > 3
    one.send("SCHED_AUTO on")
    one.send(f"REQ 2 {start}")
    one.run()
    frames = {
        req_id: [item.value for item in one.items if isinstance(item, Frame) and item.req_id == req_id]
        for req_id in (1, 2)
    }
    yields = {1: frames[1].count(YIELD), 2: frames[2].count(YIELD)}
    by_hand = total == 8 and command == "SCHED_BATCH_TARGET_STEP"
    assert yields[1] - yields[2] == by_hand
    assert [value for value in frames[1] if value >= 0] == [value for value in frames[2] if value >= 0]
    assert (events_of(one.items, "end")[-1].get("with") == 1) == (total == 8 and not by_hand)


def test_one_that_is_stepped_by_hand_in_its_grant_is_shared() -> None:
    one = driver()
    one.send(f"REQ 1 {START}")
    one.step()
    one.ask("SCHED_BATCH_TARGET_STEP")
    assert one.reply(f"REQ 2 {START}")["with"] == 1
    one.run()
    assert signals_of(one.items, 1) == signals_of(one.items, 2) == [YIELD, YIELD, DONE]


def test_a_failure_ends_them_all() -> None:
    one = driver()
    one.send(f"REQ 1 {START}")
    one.send(f"REQ 2 {START}")
    one.take(one.session.fail_all("gone", 0.0))
    assert [body["reason"] for body in events_of(one.items, "end")] == ["failed", "failed"]
    one.session.check()


def test_a_prompt_that_was_not_read_is_nobodys_equal() -> None:
    one = driver()
    with pytest.raises(TypeError, match="has not been read"):
        one.session.apply(Start(PromptFile("/p"), 5, req_id=1), 1, 0.0)
