"""/metrics and /slots: the daemon's own numbers, taken at its steps."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from paceline.clients.http import metrics as metrics_module
from paceline.clients.http.metrics import Observed, exposition
from paceline.protocol import DONE, YIELD, Frame, Message
from prometheus_client.parser import text_string_to_metric_families

from .served import Served

END = {"event": "end", "reason": "length", "prompt_tokens": 1, "cached_tokens": 0, "tokens": 3, "queue_ms": 0.0,
       "ttft_ms": 1.0, "tps": 2.0}  # fmt: skip


def metrics(served: Served) -> dict[str, float]:
    """Each sample, by its name and labels."""
    return samples(served.http.get("/metrics").text)


def samples(text: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(sample.labels.values())
            found[f"{sample.name}:{labels}" if labels else sample.name] = sample.value
    return found


def test_times_and_counts_are_those_of_the_daemon() -> None:
    with Served("--engine", "null", "--fault", "slow:10", "--slots", "1", "--log", "json") as served:
        with ThreadPoolExecutor(3) as pool:
            pool.submit(served.completion, prompt="Hello", max_tokens=200)
            served.until(lambda states: states == ["decode"])
            for count in (5, 8):
                pool.submit(served.completion, prompt="Hello", max_tokens=count)
            served.until(lambda states: states == ["decode", "queued", "queued"])
        ends = [json.loads(line) for line in (served.line('"event":"request"', n) for n in (1, 2, 3))]
        found = metrics(served)
        for name, key in (("queue", "queue_ms"), ("time_to_first_token", "ttft_ms")):
            assert found[f"paceline_{name}_seconds_count"] == 3
            assert found[f"paceline_{name}_seconds_sum"] == pytest.approx(sum(end[key] for end in ends) / 1e3)
        gaps = sum(1 / end["tps"] for end in ends)
        assert found["paceline_time_per_token_seconds_sum"] == pytest.approx(gaps)
        assert gaps / 3 >= 0.01  # a step's time
        assert found["paceline_queue_seconds_sum"] >= 5 * 0.01  # the last one waited for all of the second
        assert found["paceline_requests_total:length"] == 3
        assert found["paceline_generated_tokens_total"] == 213
        assert found["paceline_prompt_tokens_total"] == 15
        assert found["paceline_steps_total"] == 213
        assert found["paceline_slots_total"] == 1 and found["paceline_slots_used"] == 0
        served.post("/v1/completions", prompt="Hi", max_tokens=4000, temperature=0, stop=" ")
        for count in range(1, 9):  # some end by themselves as they are told to
            served.post("/v1/completions", prompt="Hi", max_tokens=count, temperature=0, stop=" ")
        ended = metrics(served)
        assert ended["paceline_requests_total:stop"] + ended["paceline_requests_total:length"] == 3 + 9
        assert "paceline_requests_total:cancelled" not in ended and "paceline_refusals_total:not_active" not in ended
        assert "paceline_refusals_total:context_overflow" not in ended
        for prompt in ([1] * 4090, [1] * 5000, "word" * 100_000):  # refused before the daemon sees them
            assert served.post("/v1/completions", prompt=prompt, max_tokens=100).status_code == 400
        assert metrics(served)["paceline_refusals_total:context_overflow"] == 3


def test_what_its_steps_did() -> None:
    flags = ("--engine", "null", "--fault", "slow:10", "--slots", "3", "--log", "json")
    with Served(*flags) as served, ThreadPoolExecutor(3) as pool:
        first = pool.submit(served.completion, prompt=[1] * 200, max_tokens=300)
        served.until(lambda states: states == ["decode"])
        others = [pool.submit(served.completion, prompt=[1] * 200, max_tokens=9) for _ in range(2)]
        for other in others:
            other.result()
        found = metrics(served)
        assert found["paceline_accepted_requests_total"] == 3 and found["paceline_prefix_hits_total"] == 2
        assert found["paceline_pages_idle"] >= 0 and found["paceline_queue_rows"] == found["paceline_snapshots"] == 0
        assert found["paceline_emitted_tokens_total"] > 18  # the first one's are among them, though it is live
        first.result()
        ends = [json.loads(served.line('"event":"request"', n)) for n in (1, 2, 3)]
        found = metrics(served)
        assert found["paceline_prefix_tokens_total"] == sum(end["cached_tokens"] for end in ends) > 0
        assert found["paceline_computed_prompt_tokens_total"] == 600 - found["paceline_prefix_tokens_total"]
        assert found["paceline_emitted_tokens_total"] == found["paceline_generated_tokens_total"] == 318
        assert found["paceline_pages_idle"] > 0 and found["paceline_coalesced_requests_total"] == 0
        steps, rows = found["paceline_rows_per_step_count"], found["paceline_rows_per_step_sum"]
        assert steps == found["paceline_steps_total"] < rows
        alone, few, all_of_them = (found[f"paceline_rows_per_step_bucket:{most}"] for most in ("1.0", "4.0", "+Inf"))
        assert alone < few == all_of_them == steps


def test_rows_of_a_step_are_counted_exactly() -> None:
    numbers = (
        "cache_bytes",
        "queue",
        "snapshots",
        "steps",
        "retried_steps",
        "weight_bytes",
        "tokens_in",
        "tokens_out",
        "accepted",
    )
    stats: dict[str, Any] = dict.fromkeys(
        (*numbers, "coalesced", "prefix_hits", "prefix_tokens", "drafted", "drafted_right"), 0
    )
    stats |= {name: {} for name in ("requests", "refusals", "slots", "pages")}
    told = samples(exposition(Observed(), stats | {"rows_per_step": {"1": 5, "2": 3, "3": 1, "200": 1}}).decode())
    name = "paceline_rows_per_step"
    assert [told[f"{name}_bucket:{edge}"] for edge in ("1.0", "2.0", "4.0", "128.0", "+Inf")] == [5, 8, 9, 9, 10]
    assert (told[f"{name}_count"], told[f"{name}_sum"]) == (10, 214)


def test_gaps_between_tokens_are_those_of_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1.0, 1.0, 1.5, 3.0, 3.25, 100.0, 200.0, 200.0])
    monkeypatch.setattr(metrics_module, "monotonic", lambda: next(times))
    observed = Observed()
    for req_id, value in ((1, 7), (2, 7), (1, 7), (2, 7), (1, YIELD), (1, 7), (2, 7)):
        observed.take(Frame(req_id, value))
    observed.take(Message(1, END))
    observed.take(Frame(1, DONE))
    observed.take(Frame(1, 7))  # of the next request of this number
    observed.forget()
    observed.take(Frame(2, 7))  # of the next daemon's
    told, name = samples(exposition(observed, None).decode()), "paceline_inter_token_latency_seconds"
    assert (told[f"{name}_count"], told[f"{name}_sum"]) == (4, 0.5 + 2 + 1.75 + 97)
    assert [told[f"{name}_bucket:{edge}"] for edge in ("0.25", "0.5", "1.0", "2.5", "60.0")] == [0, 1, 1, 3, 3]


def test_gaps_are_no_longer_than_the_answers() -> None:
    with Served("--engine", "null", "--fault", "slow:30", "--slots", "2") as served:
        begun = time.monotonic()
        served.post("/v1/completions", prompt="Hello", max_tokens=11, n=2)
        taken = time.monotonic() - begun
        found, name = metrics(served), "paceline_inter_token_latency_seconds"
        assert found[f"{name}_count"] == 20 and 0 < found[f"{name}_sum"] <= 2 * taken


def test_slots_show_what_is_live() -> None:
    with Served("--engine", "null", "--fault", "slow:20", "--slots", "2") as served, ThreadPoolExecutor(3) as pool:
        assert [slot["request"] for slot in served.http.get("/slots").json()["slots"]] == [None, None]
        asked = [pool.submit(served.completion, prompt="Hi", max_tokens=120) for _ in range(3)]
        served.until(lambda states: states == ["decode", "decode", "queued"])
        seen = served.http.get("/slots").json()
        for slot in seen["slots"]:
            request = slot["request"]
            assert (slot["owner"], slot["slot"], slot["epoch"]) == (request["req"], request["slot"], request["epoch"])
            assert request["emitted"] + request["remaining"] == 120 and slot["position"] == request["position"]
        assert [request["state"] for request in seen["queued"]] == ["queued"]
        assert metrics(served)["paceline_live_requests:decode"] == 2
        assert metrics(served)["paceline_live_requests:queued"] == 1
        later = served.http.get("/slots").json()
        assert later["slots"][0]["position"] > seen["slots"][0]["position"]
        for one in asked:
            one.result()
        assert served.states() == []
