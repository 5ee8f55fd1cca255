"""What each command does and answers, one at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from driver import Driver, alone, signals_of, tokens_of
from dump import state_of
from paceline.daemon.null_engine import NullEngine
from paceline.protocol import CANCELLED, DONE, YIELD, Frame, Ids, Load, Message, PromptFile, Start


def test_start_replies_before_its_frames_and_ends_with_its_event() -> None:
    driver = Driver()
    assert driver.reply("REQ 4 START ids:6,7,8 3 2 temp=1 seed=9") == {
        "re": 1,
        "ok": True,
        "slot": 0,
        "epoch": 1,
        "state": "prefill",
        "prompt_tokens": 3,
    }
    driver.run()
    driver.send("REQ 4 CONTINUE 5")
    *_, end, terminal = driver.run()
    assert terminal == Frame(4, DONE)
    assert isinstance(end, Message) and end.req_id == 4
    assert {
        name: end.body[name] for name in ("event", "req", "reason", "prompt_tokens", "tokens", "cached_tokens", "seed")
    } == {
        "event": "end",
        "req": 4,
        "reason": "length",
        "prompt_tokens": 3,
        "tokens": 3,
        "cached_tokens": 0,
        "seed": 9,
    }
    assert all(end.body[name] >= 0 for name in ("queue_ms", "ttft_ms", "prompt_tps", "tps"))
    assert end.body["mean_rows"] == 1.0
    assert "logits_sha256" not in end.body


def test_a_quantum_spent_yields_and_continue_goes_on_without_prefill() -> None:
    driver = Driver()
    driver.send("REQ 4 SLOT 0 START ids:1,2 6 2")
    assert [item.value for item in driver.run() if isinstance(item, Frame)][-1] == YIELD
    before = driver.session.counters.tokens_in
    assert driver.reply("REQ 4 SLOT 0 CONTINUE 3 epoch=1")["granted"] == 3
    assert driver.reply("REQ 4 CONT 9")["granted"] == 1
    assert driver.reply("REQ 4 CONT 9")["granted"] == 0
    driver.run()
    assert driver.session.counters.tokens_in == before
    assert tokens_of(driver.items, 4) == alone("REQ 4 START ids:1,2 6")
    assert signals_of(driver.items, 4) == [YIELD, DONE]


def test_a_quantum_above_total_is_clamped() -> None:
    driver = Driver()
    driver.send("REQ 1 START ids:1 3 500")
    (row,) = driver.reply("LIST_REQUESTS")["requests"]
    assert (row["quantum"], row["granted"], row["remaining"]) == (3, 3, 3)


@pytest.mark.parametrize(
    ("line", "code", "word"),
    [
        ("REQ 2 SLOT 0 START ids:1 5", "slot_busy", "slot 0 belongs to request 1"),
        ("REQ 2 SLOT 4 START ids:1 5", "no_such_slot", "slot 4: expected 0 to 3"),
        ("REQ 1 START ids:1 5", "duplicate_request", "request 1 is live"),
        ("REQ 2 START ids:1,32000 5", "prompt_bad_token", "prompt token 1 is 32000: expected 0 to 31999"),
        ("REQ 2 START ids:1 5 stop=1,32000", "bad_argument", "stop=32000"),
        ("REQ 2 START ids:1 5 predict=1,32000", "bad_argument", "predict=32000"),
        (f"REQ 2 START ids:1 5 predict={'1,' * 256}1", "bad_argument", "predict: has 257 tokens, expected at most the"),
        (
            "REQ 2 START ids:1 256",
            "context_overflow",
            "1 tokens of prompt and 256 to come make 257: the context is 256",
        ),
        ("REQ 2 START ids:1 5 snap=2:a", "bad_argument", "snap=2:a: the prompt has 1 tokens"),
        ("REQ 2 START ids:1 5 logprobs=1025", "bad_argument", "logprobs=1025: expected 0 to 1024"),
        ("REQ 2 START ids:1 5 logit_bias=1:2,32000:1", "bad_argument", "logit_bias=32000: expected 0 to 31999"),
        ("REQ 2 CONTINUE 1", "not_active", "request 2 is not live"),
        ("REQ 1 SLOT 1 CONTINUE 1", "stale", "SLOT 1: request 1 holds slot 0 at epoch 1"),
        ("REQ 1 CONTINUE 1 epoch=7", "stale", "epoch=7: request 1 holds slot 0 at epoch 1"),
        ("REQ 1 SLOT 9 CONTINUE 1", "no_such_slot", "slot 9"),
        ("CANCEL 3", "not_active", "request 3"),
        ("REQ 1 SLOT 3 CANCEL", "stale", "SLOT 3"),
        ("SLOT 1 SNAPSHOT a", "not_active", "slot 1 is free"),
        ("SLOT 4 SNAPSHOT a", "no_such_slot", "slot 4"),
        ("SLOT 0 SNAPSHOT_THIN a 0 4", "bad_argument", "positions 0 to 4: slot 0 holds positions 0 to 2"),
        ("SLOT 0 SNAPSHOT_THIN a 1 1", "bad_argument", "1"),
        ("FREE_SNAPSHOT a", "no_snapshot", "'a'"),
        ("SAVE a /nowhere/a", "no_snapshot", "'a'"),
        ("LOAD a /nowhere/a", "bad_argument", "path /nowhere/a: No such file"),
        ("REQ 2 RESTORE a ids:1 5", "no_snapshot", "'a'"),
        ("REQ 2 RESTORE_CHAIN a - ids:1 5", "no_snapshot", "'a'"),
        ("TRACE off", "bad_argument", "no trace is on"),
        ("TRACE on /nowhere/at/all", "bad_argument", "path /nowhere/at/all: No such file or directory"),
        ("NONSENSE", "bad_command", "NONSENSE"),
    ],
)
def test_refusals_say_why_and_change_nothing(line: str, code: str, word: str) -> None:
    driver = Driver()
    driver.send("REQ 1 SLOT 0 START ids:1 5 2")
    driver.run()
    before = state_of(driver.session)
    reply = driver.reply(line)
    assert (reply["ok"], reply["code"]) == (False, code)
    assert word in reply["error"]
    assert state_of(driver.session) == before
    assert driver.session.counters.refusals == {code: 1}


def test_the_session_wants_files_that_were_read() -> None:
    driver = Driver()
    with pytest.raises(TypeError, match="the snapshot /p has not been read"):
        driver.session.apply(Load("a", "/p"), 1, 0.0)
    with pytest.raises(TypeError, match="has not been read"):
        driver.session.apply(Start(PromptFile("/p"), 5, req_id=1), 1, 0.0)
    (reply,) = driver.session.apply(Start(Ids(()), 5, req_id=1), 1, 0.0)
    assert isinstance(reply, Message) and reply.body["code"] == "prompt_empty"


def test_lists() -> None:
    driver = Driver(slots=2)
    driver.send("REQ 1 START ids:1,2 9 2")
    driver.run()
    assert driver.reply("LIST_REQUESTS")["requests"] == [
        {
            "req": 1,
            "state": "parked",
            "slot": 0,
            "epoch": 1,
            "position": 3,
            "emitted": 2,
            "remaining": 7,
            "quantum": 2,
            "granted": 0,
        }
    ]
    assert driver.reply("LIST_TARGET_CACHE_SLOTS")["slots"] == [
        {"slot": 0, "epoch": 1, "owner": 1, "position": 3, "pages": 1, "bytes": 512},
        {"slot": 1, "epoch": 0, "owner": None, "position": 0, "pages": 0, "bytes": 0},
    ]


def test_ping_help_quit() -> None:
    driver = Driver()
    assert driver.reply("PING") == {"re": 1, "ok": True, "pong": None}
    assert driver.reply("PING abc")["pong"] == "abc"
    assert "START" in driver.reply("HELP")["help"]
    assert "quantum" in driver.reply("HELP START")["help"]
    driver.send("REQ 1 START ids:1 9 2")
    driver.run()
    quit_reply, _, terminal = driver.send("QUIT")
    assert isinstance(quit_reply, Message) and quit_reply.body["ok"]
    assert terminal == Frame(1, CANCELLED)
    assert driver.session.done


@pytest.mark.parametrize("rest", ["", "seed=7", "top_k=5 top_p=0.5", "samp=0,0.9,40,1,7", "hash=1 stop=5 priority=2"])
def test_an_engine_that_only_decodes_greedily_takes_what_is_greedy(rest: str) -> None:
    assert greedy_only().reply(f"REQ 1 START ids:1,2 5 {rest}")["ok"]


@pytest.mark.parametrize(
    ("rest", "name"),
    [
        ("temp=0.8 seed=7", "temp"),
        ("logprobs=1", "logprobs"),
        ("rep_penalty=1.1", "rep_penalty"),
        ("logit_bias=3:1", "logit_bias"),
        ("samp=0,0.9,40,1,7,0,0.5", "pres_penalty"),
    ],
)
def test_an_engine_that_only_decodes_greedily_refuses_the_rest(rest: str, name: str) -> None:
    reply = greedy_only().reply(f"REQ 1 START ids:1,2 5 {rest}")
    assert reply["code"] == "unsupported" and reply["error"].startswith(f"{name}: this engine decodes greedily")


def greedy_only() -> Driver:
    engine = NullEngine(4, 256)
    engine.info = replace(engine.info, greedy_only=True)
    return Driver(engine=engine)
