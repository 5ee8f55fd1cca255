"""/metrics and /slots: the daemon's own numbers, taken at its steps."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .served import Served


def metrics(served: Served) -> dict[str, float]:
    """Each sample, by its name and labels."""
    found = {}
    for family in text_string_to_metric_families(served.http.get("/metrics").text):
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
        served.post("/v1/completions", prompt=[1] * 4090, max_tokens=100)
        assert metrics(served)["paceline_refusals_total:context_overflow"] == 1


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
