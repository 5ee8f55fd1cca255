"""The room that snapshots take: pages and places for states, names that are given again, and who waits for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import alone, events_of, tokens_of
from snapshot_driver import LONG, driver, ids


def test_the_same_name_again_takes_its_place_and_gives_the_pages_back() -> None:
    one = driver(slots=1)
    one.send(f"REQ 1 START ids:{LONG} 60 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send("REQ 1 CONTINUE 50")
    one.run()
    assert one.reply("SLOT 0 SNAPSHOT a")["position"] == 200
    assert len(one.reply("LIST_SLOTS")["snapshots"]) == 1
    one.send("CANCEL 1")
    one.send("FREE_SNAPSHOT a")
    assert one.session.lifecycle.cache.pages.free == len(one.session.lifecycle.cache.pages)


def test_no_place_for_a_state() -> None:
    one = driver(recurrent=True, states=1)
    one.send("REQ 1 START ids:1,2,3 9 1 snap=2:a")
    one.run()
    reply = one.reply("SLOT 0 SNAPSHOT b")
    assert reply["code"] == "kv_budget" and "snapshots hold all 1" in reply["error"]
    one.send("REQ 2 START ids:1,2,3 9 1 snap=2:c")
    one.run()
    (event,) = [body for body in events_of(one.items, "snapshot") if body["req"] == 2]
    assert (event["position"], event["code"]) == (None, "kv_budget")
    assert tokens_of(one.items, 2) == tokens_of(one.items, 1), "the request goes on"


def test_a_name_that_is_taken_needs_no_place_beside_it(tmp_path: Path) -> None:
    one = driver(recurrent=True, states=1)
    one.send("REQ 1 START ids:1,2,3 9 2 snap=2:a")
    one.run()
    assert one.reply("SLOT 0 SNAPSHOT a")["position"] == 4
    one.send("REQ 1 CONTINUE 2")
    one.run()
    assert one.reply("SLOT 0 SNAPSHOT a")["position"] == 6
    assert one.reply(f"SAVE a {tmp_path}/a")["ok"] and one.reply(f"LOAD a {tmp_path}/a")["position"] == 6
    prompt = ids("1,2,3", tokens_of(one.items, 1))
    for req_id, tail in ((2, 5), (3, 6)):
        one.send(f"REQ {req_id} RESTORE a ids:{prompt},{tail} 3")
        one.run()
        assert tokens_of(one.items, req_id) == alone(f"REQ 1 START ids:{prompt},{tail} 3")
    one.session.check()


def test_a_name_that_is_taken_needs_no_pages_beside_it(tmp_path: Path) -> None:
    one = driver(slots=1, pages=4)
    one.send(f"REQ 1 START ids:{LONG} 2 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send(f"SAVE a {tmp_path}/a")
    assert one.reply(f"LOAD a {tmp_path}/a")["code"] == "kv_budget", "request 1 holds those pages too"
    one.send("CANCEL 1")
    for _ in range(3):
        assert one.reply(f"LOAD a {tmp_path}/a")["position"] == 150
    assert one.reply(f"LOAD b {tmp_path}/a")["error"] == (
        "the cache lacks 1024 bytes for this snapshot: retry when a request has ended or a snapshot is freed"
    )
    one.send(f"REQ 2 RESTORE a ids:{LONG},5 3")
    one.send(f"LOAD a {tmp_path}/a")
    one.run()
    assert tokens_of(one.items, 2) == alone(f"REQ 1 START ids:{LONG},5 3")
    one.session.check()


def test_what_waits_for_pages_gets_those_of_a_name_that_was_given_away() -> None:
    one = driver(slots=3, pages=6)
    one.send(f"REQ 1 START ids:{LONG} 1 snap=150:a")
    one.run()
    one.send("REQ 2 START ids:5 20 1")
    one.run()
    assert one.reply(f"REQ 3 START ids:6,{LONG} 100")["state"] == "queued"
    one.send("REQ 4 START ids:5 20 1 snap=1:a")
    one.run()
    assert len(tokens_of(one.items, 3)) == 100


def test_what_no_retry_helps(tmp_path: Path) -> None:
    one, other = driver(), driver(slots=1, pages=2)
    one.send(f"REQ 1 START ids:{LONG} 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send(f"SAVE a {tmp_path}/a")
    assert other.reply(f"LOAD a {tmp_path}/a")["error"] == (
        "the cache lacks 512 bytes for this snapshot: a retry cannot help: the whole cache is smaller than that"
    )
    one = driver(recurrent=True, states=0)
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    assert one.reply("SLOT 0 SNAPSHOT a")["error"] == (
        "the cache lacks 8 bytes for a recurrent state: there is no place for any, expected --states of 1 at least"
    )


def test_a_restore_that_waits_holds_what_it_starts_from() -> None:
    one = driver(slots=1, pages=8)
    one.send(f"REQ 1 START ids:{LONG} 60 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    prompt = f"{LONG},{tokens_of(one.items, 1)[0]},3"
    assert one.reply(f"REQ 2 RESTORE a ids:{prompt} 9")["state"] == "queued"
    one.send("FREE_SNAPSHOT a")
    one.session.check()
    one.send("CANCEL 1")
    one.session.check()
    one.run()
    assert tokens_of(one.items, 2) == alone(f"REQ 1 START ids:{prompt} 9")
    assert events_of(one.items, "end")[-1]["cached_tokens"] == 150
    one.send(f"REQ 3 START ids:{LONG} 60 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send(f"REQ 4 RESTORE a ids:{prompt} 9")
    one.send("CANCEL 4")
    one.session.check()


def test_what_waits_at_the_end_of_input_gets_the_pages_of_the_snapshots() -> None:
    one = driver(slots=2, pages=4)
    one.send(f"REQ 1 START ids:{LONG} 2")
    one.step()
    one.send("SLOT 0 SNAPSHOT a")
    one.run()
    assert one.reply(f"REQ 2 START ids:9,{LONG} 40")["state"] == "queued"
    assert one.run() == []
    one.end()
    assert len(tokens_of(one.items, 2)) == 40


def test_references_that_do_not_add_up_are_noticed() -> None:
    one = driver()
    one.session.check()
    one.session.lifecycle.cache.pages.allocate(1, lambda page: None)
    with pytest.raises(RuntimeError, match="do not add up"):
        one.session.check()


@pytest.mark.parametrize("recurrent", [False, True])
def test_restores_that_wait_do_not_keep_each_other_from_running(recurrent: bool) -> None:
    """What they hold while they wait can be all there is."""
    one = driver(recurrent, slots=1, pages=3)
    one.send("REQ 1 START ids:1,2 1 snap=2:a")
    one.send("REQ 2 START ids:3,4 1 snap=2:b")
    one.run()
    one.send("REQ 3 START ids:5 3 1")
    one.run()
    prompts = {4: f"1,2,{LONG}", 5: f"3,4,{LONG}"}
    for req_id, name in ((4, "a"), (5, "b")):
        assert one.reply(f"REQ {req_id} RESTORE {name} ids:{prompts[req_id]} 3")["state"] == "queued"
    one.send("FREE_SNAPSHOT a")
    one.send("FREE_SNAPSHOT b")
    one.send("CANCEL 3")
    one.end()
    for req_id, prompt in prompts.items():
        assert tokens_of(one.items, req_id) == alone(f"REQ 1 START ids:{prompt} 3")
    one.session.check()


def test_a_restore_that_waits_keeps_what_it_has_where_letting_go_helps_nobody() -> None:
    """Only a snapshot keeps it out; when that is freed it goes on where the other one ended."""
    one = driver(slots=2, pages=5)
    one.send(f"REQ 1 START ids:{LONG} 1 snap=150:big")
    one.send("REQ 2 START ids:1,2 1 snap=2:small")
    one.run()
    prompt = f"1,2,{LONG}"
    assert one.reply(f"REQ 3 RESTORE small ids:{prompt} 3")["state"] == "queued"
    one.send("FREE_SNAPSHOT small")
    one.send("FREE_SNAPSHOT big")
    one.run()
    assert tokens_of(one.items, 3) == alone(f"REQ 1 START ids:{prompt} 3")
    assert events_of(one.items, "end")[-1]["cached_tokens"] == 2


def test_who_lets_go_is_one_that_holds_what_no_snapshot_does() -> None:
    """Request 3 would not fit without what it shares with a snapshot, and would give nothing back."""
    one = driver(slots=3, pages=8, context=600)
    one.send(f"REQ 1 START ids:{LONG} 1 snap=150:big")
    one.run()
    one.send(f"REQ 2 START ids:9,{LONG} 1 snap=100:small")
    one.run()
    one.send("REQ 5 START ids:8 190 1")
    one.run()
    assert one.reply(f"REQ 2 RESTORE small ids:9,{LONG} 360")["state"] == "queued"
    assert one.reply(f"REQ 3 RESTORE big ids:{LONG},5 200")["state"] == "queued"
    one.send("FREE_SNAPSHOT small")
    one.send("CANCEL 5")
    one.run()
    assert tokens_of(one.items, 3) == alone(f"REQ 1 START ids:{LONG},5 200", context=600)
    assert events_of(one.items, "end")[-1]["cached_tokens"] == 150
    one.session.check()
