"""Snapshots through the session: what is kept, what goes on from it, and what it costs."""

from __future__ import annotations

import itertools

import pytest
from driver import alone, events_of, tokens_of
from snapshot_driver import LONG, driver, ids


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("total", [1, 5, 43])
def test_a_restore_goes_on_where_the_snapshot_ends(recurrent: bool, total: int) -> None:
    one = driver(recurrent)
    one.send(f"REQ 1 START ids:{LONG} 60 {total}")
    one.run()
    tokens = tokens_of(one.items, 1)
    kept = one.reply("SLOT 0 SNAPSHOT a")
    assert (kept["position"], kept["bytes"]) == (149 + total, 512 * 3 + 8 * recurrent if total < 44 else 0)
    one.send("REQ 1 CONTINUE 100")
    one.run()
    prompt = ids(LONG, [*tokens, 7])
    reply = one.reply(f"REQ 2 RESTORE a ids:{prompt} 9")
    assert (reply["ok"], reply["slot"], reply["prompt_tokens"]) == (True, 0, 151 + total)
    one.run()
    assert tokens_of(one.items, 2) == alone(f"REQ 1 START ids:{prompt} 9")
    end = events_of(one.items, "end")[-1]
    assert end["cached_tokens"] == 149 + total
    assert (
        sum(len(row.tokens) for plan in one.plans for batch in plan.batches for row in batch if row.req_id == 2) == 10
    )
    assert one.reply("LIST_SLOTS")["snapshots"] == [{"name": "a", "position": 149 + total, "bytes": kept["bytes"]}]
    assert one.reply("FREE_SNAPSHOT a")["ok"]
    assert one.session.lifecycle.cache.pages.used == 0
    one.session.check()


def test_the_slot_goes_on_writing_and_the_snapshot_does_not_see_it() -> None:
    one = driver()
    one.send(f"REQ 1 START ids:{LONG} 30 2")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send("REQ 1 CONTINUE 28")
    for req_id in (2, 3):  # two that go on from it differently, while the first one does too
        one.send(f"REQ {req_id} RESTORE a ids:{ids(LONG, [tokens_of(one.items, 1)[0], req_id])} 20")
    one.run()
    for req_id in (2, 3):
        prompt = ids(LONG, [tokens_of(one.items, 1)[0], req_id])
        assert tokens_of(one.items, req_id) == alone(f"REQ 1 START ids:{prompt} 20")
    assert tokens_of(one.items, 1) == alone(f"REQ 1 START ids:{LONG} 30")


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("REQ 2 RESTORE a ids:1,2 5", "snapshot_mismatch", "the prompt has 2 tokens, snapshot 'a' has 150"),
        (f"REQ 2 RESTORE a ids:{LONG} 5", "snapshot_mismatch", "expected a longer prompt"),
        (f"REQ 2 RESTORE a ids:9,{LONG},1 5", "snapshot_mismatch", "prompt token 0 is 9, snapshot 'a' has 1 there"),
        (f"REQ 2 RESTORE thin ids:{LONG},1 5", "snapshot_mismatch", "holds positions 10 to 99 only"),
        (f"REQ 2 RESTORE_CHAIN -1 thin ids:{LONG},1 5", "snapshot_mismatch", "one that holds position 0"),
        (f"REQ 2 RESTORE_CHAIN a thin ids:{LONG},1 5", "snapshot_mismatch", "one that holds position 150"),
        ("REQ 1 RESTORE a ids:1 5", "duplicate_request", "request 1 is live"),
        ("SLOT 0 SNAPSHOT_THIN b 0 151", "bad_argument", "positions 0 to 151: slot 0 holds positions 0 to 150"),
    ],
)
def test_refusals(line: str, code: str, sentence: str) -> None:
    one = driver(slots=2)
    one.send(f"REQ 1 START ids:{LONG} 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send("SLOT 0 SNAPSHOT_THIN thin 10 100")
    before = len(one.session.live)
    reply = one.reply(line)
    assert (reply["ok"], reply["code"]) == (False, code)
    assert sentence in reply["error"]
    assert len(one.session.live) == before
    one.session.check()


@pytest.mark.parametrize("cuts", [(64, 128), (10, 70), (1, 2), (63, 65), (100, 150)])
def test_a_chain_of_ranges_gives_the_same_tokens(cuts: tuple[int, int]) -> None:
    one = driver()
    one.send(f"REQ 1 START ids:{LONG} 9 1")
    one.run()
    edges = [0, *cuts, 150]
    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        if start < end:
            one.send(f"SLOT 0 SNAPSHOT_THIN t{number} {start} {end}")
    one.send("CANCEL 1")
    prompt = f"{LONG},5,6"
    names = ",".join(f"t{number}" for number, (start, end) in enumerate(itertools.pairwise(edges)) if start < end)
    assert one.reply(f"REQ 2 RESTORE_CHAIN -1 {names} ids:{prompt} 9")["ok"]
    assert one.reply(f"REQ 3 RESTORE_CHAIN t0 {names.partition(',')[2]} ids:{prompt} 9")["ok"]
    one.run()
    for req_id in (2, 3):
        assert tokens_of(one.items, req_id) == alone(f"REQ 1 START ids:{prompt} 9")
    assert [body["cached_tokens"] for body in events_of(one.items, "end")[1:]] == [150, 150]


def test_ranges_are_for_models_without_recurrent_layers() -> None:
    one = driver(recurrent=True)
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    assert one.reply("SLOT 0 SNAPSHOT_THIN a 0 2")["code"] == "unsupported"


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("position", [1, 63, 64, 100, 150])
def test_a_snapshot_in_mid_prefill(recurrent: bool, position: int) -> None:
    one = driver(recurrent)
    one.send(f"REQ 1 START ids:{LONG} 5 snap={position}:early")
    one.run()
    assert [(body["req"], body["name"], body["position"]) for body in events_of(one.items, "snapshot")] == [
        (1, "early", position)
    ]
    prompt = ",".join([*map(str, range(1, position + 1)), "77"])
    one.send(f"REQ 2 RESTORE early ids:{prompt} 9")
    one.run()
    assert tokens_of(one.items, 2) == alone(f"REQ 1 START ids:{prompt} 9")
    assert tokens_of(one.items, 1) == alone(f"REQ 1 START ids:{LONG} 5")


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_snapshot_in_mid_prefill_of_a_known_prompt(recurrent: bool) -> None:
    one = driver(recurrent, reuse=True)
    for req_id in (1, 2):
        one.send(f"REQ {req_id} START ids:{LONG} 5 snap=100:early")
        one.run()
    assert [body["position"] for body in events_of(one.items, "snapshot")] == [100, 100]
    assert tokens_of(one.items, 2) == tokens_of(one.items, 1)


def test_a_snapshot_before_the_one_it_starts_from() -> None:
    """Pages hold every position; a recurrent state is past it."""
    for recurrent in (False, True):
        one = driver(recurrent)
        one.send(f"REQ 1 START ids:{LONG} 4 2")
        one.run()
        one.send("SLOT 0 SNAPSHOT a")
        prompt = ids(LONG, [*tokens_of(one.items, 1), 7])
        reply = one.reply(f"REQ 2 RESTORE a ids:{prompt} 3 snap=100:b")
        if recurrent:
            assert reply["code"] == "bad_argument" and "expected a position from 151 on" in reply["error"]
            assert one.reply(f"REQ 2 RESTORE a ids:{prompt} 3 snap=151:b")["ok"]
        one.run()
        assert tokens_of(one.items, 2) == alone(f"REQ 1 START ids:{prompt} 3")
        assert one.reply(f"REQ 3 RESTORE b ids:{prompt} 3")["ok"]
        one.run()
        assert tokens_of(one.items, 3) == tokens_of(one.items, 2)
        one.session.check()
