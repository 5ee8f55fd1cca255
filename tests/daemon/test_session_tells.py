"""What is told beside the tokens: seeds, statistics, hashes, likely tokens."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import pytest
from driver import Driver, alone, events_of, limits, tokens_of
from paceline.daemon.null_engine import mix
from paceline.daemon.replies import ready
from paceline.protocol import Frame, Message


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
    last = ["slots", "context", "vocab", "eos", "step_tokens", "max_batch", "most_positions"]
    assert list(message.body) == [*first, *last]


@pytest.mark.parametrize(("pages", "most"), [(1, 64), (3, 192), (4, 256), (5, 256)])
def test_the_most_positions_of_one_request(pages: int, most: int) -> None:
    """What is no longer is admitted; what is refused for its length is told the number."""
    bounds = limits(pages=pages)
    assert ready(Driver().engine.info, bounds, "1.2").body["most_positions"] == most
    for prompt in (1, 2, most - 1):
        ids = ",".join(["5"] * prompt)
        one = Driver(bounds)
        assert one.reply(f"REQ 1 START ids:{ids} {most - prompt}")["state"] == "prefill"
        one.run()
        for total in (most + 2 - prompt, 257):
            reply = one.reply(f"REQ 2 START ids:{ids} {total}")
            assert reply["code"] in ("context_overflow", "kv_budget") and str(most) in reply["error"]


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
