"""What each command does and answers, one at a time."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest
from driver import Driver, alone, events_of, limits, signals_of, terminal_of, tokens_of
from dump import state_of
from paceline.daemon.engine import execute
from paceline.daemon.null_engine import mix
from paceline.daemon.replies import ready
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


def test_a_seed_is_drawn_only_if_chance_has_a_say() -> None:
    driver = Driver()
    for req_id, options in enumerate(["", "temp=1", "temp=1 seed=5", "rep_penalty=1.5", "seed=6"], 1):
        driver.send(f"REQ {req_id} START ids:1 2 {options}")
        driver.run()
    assert [body["seed"] for body in events_of(driver.items, "end")] == [None, 1000, 5, None, 6]
    samplings = [plan.batches[0][0].sampling for plan in driver.plans[::2]]
    assert [sampling and sampling.seed for sampling in samplings] == [None, 1000, 5, 0, None]


def test_statistics() -> None:
    driver = Driver(slots=2)
    empty = driver.reply("STATS")
    assert empty["step_ms"] == {"min": None, "median": None, "mean": None, "p95": None, "max": None}
    assert (empty["prefill_tps"], empty["decode_tps"]) == (None, None)
    driver.send("REQ 1 START ids:1,2,3 4 2")
    driver.send("REQ 2 START ids:1 2")
    driver.send("REQ 3 START ids:1 2")
    driver.run()
    driver.send("CANCEL 1")
    driver.send("CANCEL 1")
    driver.send("REQ 5 START ids:1 100 5")
    stats = driver.reply("STATS")
    expected: dict[str, Any] = {
        "lines": 7,
        "steps": 4,
        "rows_per_step": {"1": 2, "2": 2},
        "tokens_in": 5,
        "tokens_out": 6,
        "accepted": 4,
        "ended": 2,
        "cancels": 1,
        "failures": 0,
        "refusals": {"not_active": 1},
        "queue": 0,
        "requests": {"queued": 0, "prefill": 1, "decode": 0, "parked": 0},
        "slots": {"used": 1, "total": 2},
        "pages": {"used": 2, "idle": 2, "total": 8},
        "cache_bytes": 1024,
        "prefix_hits": 0,
        "weight_bytes": 0,
    }
    assert {name: stats[name] for name in expected} == expected
    assert stats["prefill_tps"] > 0 and stats["decode_tps"] > 0
    for name in ("step_ms", "ttft_ms", "token_ms"):
        spread = stats[name]
        assert 0 < spread["min"] <= spread["median"] <= spread["p95"] <= spread["max"]
        assert spread["min"] <= spread["mean"] <= spread["max"]


def test_ready() -> None:
    message = ready(Driver().engine.info, limits(), "1.2")
    assert message.req_id == 0
    first = ["event", "protocol", "version", "model", "path", "architecture", "device"]
    assert list(message.body) == [*first, "slots", "context", "vocab", "eos", "step_tokens", "max_batch"]


def test_the_hash_is_that_of_all_output_logits_the_last_one_too() -> None:
    state, logits = 0, b""
    for token in (1, 2):
        state = mix(state, token)
    for _ in range(4):
        logits += state.to_bytes(8, "little")
        state = mix(state, state % 32000)
    tokens = alone("REQ 1 START ids:1,2 9")
    for options in ("4", f"9 2 stop={tokens[3]}"):
        driver = Driver(prefill_tokens=1)
        driver.send(f"REQ 1 START ids:1,2 {options} hash=1")
        driver.send("SCHED_DRAIN")
        driver.run()
        assert events_of(driver.items, "end")[0]["logits_sha256"] == hashlib.sha256(logits).hexdigest()


def test_what_was_likely_comes_right_before_each_token() -> None:
    driver = Driver()
    driver.send("REQ 1 START ids:1,2 3 logprobs=2")
    driver.run()
    news = [item for item in driver.items if not (isinstance(item, Message) and "re" in item.body)]
    tokens = alone("REQ 1 START ids:1,2 3")
    for told, frame, token in zip(news[0:6:2], news[1:6:2], tokens, strict=True):
        assert isinstance(told, Message) and frame == Frame(1, token)
        half, quarter = -math.log(2), -2 * math.log(2)
        top = [[token, half], [(token + 1) % 32000, quarter]]
        assert told.body == {"event": "logprobs", "req": 1, "token": token, "logprob": half, "top": top}


def test_a_token_that_ends_a_request_is_not_told_of() -> None:
    tokens = alone("REQ 1 START ids:1,2 9")
    driver = Driver()
    driver.send(f"REQ 1 START ids:1,2 9 logprobs=1 stop={tokens[2]}")
    driver.run()
    assert len(events_of(driver.items, "logprobs")) == len(tokens_of(driver.items, 1)) == 2
