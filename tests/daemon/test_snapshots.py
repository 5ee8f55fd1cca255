"""Snapshots through the session: what is kept, what goes on from it, and what it costs."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest
from driver import Driver, alone, events_of, limits, tokens_of
from paceline.daemon import snapshot_files
from paceline.daemon.null_engine import NullEngine
from paceline.daemon.plan import Seat

LONG = ",".join(map(str, range(1, 151)))


def driver(recurrent: bool = False, **named: object) -> Driver:
    bounds = limits(**{"states": 4, "reuse": False, **named})  # type: ignore[arg-type]
    return Driver(bounds, NullEngine(bounds.slots, bounds.context, recurrent))


def ids(text: str, tokens: list[int]) -> str:
    return ",".join([text, *map(str, tokens)])


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("total", [1, 5, 43])
def test_a_restore_goes_on_where_the_snapshot_ends(recurrent: bool, total: int) -> None:
    one = driver(recurrent)
    one.send(f"REQ 1 START ids:{LONG} 60 {total}")
    one.run()
    tokens = tokens_of(one.items, 1)
    kept = one.reply("SLOT 0 SNAPSHOT a")
    assert (kept["position"], kept["bytes"]) == (149 + total, 512 * 3 + 16 * recurrent if total < 44 else 0)
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
        "the cache lacks 16 bytes for a recurrent state: there is no place for any, expected --states of 1 at least"
    )


def test_a_restore_that_waits_holds_what_it_starts_from() -> None:
    one = driver(slots=1, pages=8)
    one.send(f"REQ 1 START ids:{LONG} 60 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    prompt = f"{LONG},{tokens_of(one.items, 1)[0]},3"
    assert one.reply(f"REQ 2 RESTORE a ids:{prompt} 9")["state"] == "queued"
    one.send("FREE_SNAPSHOT a")
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


@pytest.mark.parametrize("recurrent", [False, True])
def test_to_a_file_and_back(recurrent: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.snapshot"
    one = driver(recurrent)
    one.send(f"REQ 1 START ids:{LONG} 60 5")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    saved = one.reply(f"SAVE a {path}")
    assert saved["ok"] and saved["position"] == 154
    assert [file.name for file in tmp_path.iterdir()] == ["a.snapshot"]

    other = driver(recurrent)
    assert other.reply(f"LOAD b {path}") == {"re": 1, "ok": True, "position": 154, "bytes": saved["bytes"]}
    prompt = ids(LONG, [*tokens_of(one.items, 1), 7])
    other.send(f"REQ 2 RESTORE b ids:{prompt} 9")
    other.run()
    assert tokens_of(other.items, 2) == alone(f"REQ 1 START ids:{prompt} 9")
    assert not any(isinstance(move, Seat) for plan in one.plans for move in plan.moves)


def test_a_file_of_another_model_is_refused(tmp_path: Path) -> None:
    one, other = driver(), driver(recurrent=True)
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send(f"SAVE a {tmp_path}/a")
    reply = other.reply(f"LOAD a {tmp_path}/a")
    assert reply["code"] == "snapshot_mismatch" and "saved of another model" in reply["error"]


def test_an_engine_without_files(tmp_path: Path) -> None:
    one = driver()
    one.engine.info = replace(one.engine.info, fingerprint="")  # type: ignore[misc]
    one.session.info = one.engine.info
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    assert one.reply(f"SAVE a {tmp_path}/a")["code"] == "unsupported"
    assert one.reply(f"LOAD a {tmp_path}/a")["code"] == "unsupported"


def test_files_that_cannot_be(tmp_path: Path) -> None:
    one = driver(slots=1, pages=4)
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    for line, sentence in (
        (f"SAVE a {tmp_path}/no/a", "No such file or directory; expected a file that can be written"),
        (f"SAVE a {tmp_path}", "is no regular file"),
        (f"LOAD a {tmp_path}", "Is a directory; expected"),
        ("LOAD a /dev/null", "is no regular file"),
        (f"LOAD a {tmp_path}/no", "No such file or directory; expected a file that SAVE"),
    ):
        reply = one.reply(line)
        assert reply["code"] == "bad_argument" and sentence in reply["error"], line
    (tmp_path / "big").write_bytes(bytes(1 << 25))
    assert one.reply(f"LOAD a {tmp_path}/big")["code"] == "kv_budget"


def test_a_file_that_does_not_fit_now(tmp_path: Path) -> None:
    for recurrent in (False, True):
        one = driver(recurrent, slots=2, pages=4, states=1)
        one.send(f"REQ 1 START ids:{LONG} 2 1")
        one.run()
        one.send("SLOT 0 SNAPSHOT a")
        one.send(f"SAVE a {tmp_path}/a")
        one.send("REQ 2 START ids:9 2 1")
        one.run()
        reply = one.reply(f"LOAD b {tmp_path}/a")
        assert reply["code"] == "kv_budget" and "retry" in reply["error"]
        one.send("CANCEL 1")
        one.send("CANCEL 2")
        if recurrent:
            one.send("FREE_SNAPSHOT a")
            one.send("REQ 3 START ids:1 1 snap=1:b")
            one.run()
            assert "snapshots hold all" in one.reply(f"LOAD c {tmp_path}/a")["error"]
        one.session.check()


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    one = driver()
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    name = "n" * os.pathconf(tmp_path, "PC_NAME_MAX")
    assert one.reply(f"SAVE a {tmp_path}/{name}")["ok"]
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert one.reply(f"LOAD b {tmp_path}/{name}")["ok"]


@pytest.mark.parametrize("command", ["SAVE", "LOAD"])
def test_a_long_path_is_not_repeated_in_full(command: str) -> None:
    one = driver()
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    error = one.reply(f"{command} a /{'n' * 5000}")["error"]
    assert error.startswith(f"path /{'n' * 199}…: File name too long; expected")


def test_no_memory_for_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = driver()
    one.send("REQ 1 START ids:1,2,3 9 1")
    one.run()
    one.send("SLOT 0 SNAPSHOT a")
    one.send(f"SAVE a {tmp_path}/a")

    def no_memory(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(one.engine, "read_page", no_memory)
    monkeypatch.setattr(snapshot_files, "decode", no_memory)
    for line in (f"SAVE a {tmp_path}/b", f"LOAD b {tmp_path}/a"):
        reply = one.reply(line)
        assert reply["code"] == "kv_budget" and "retry when there is" in reply["error"]
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


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
