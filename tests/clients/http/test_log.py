"""What `paceline serve` writes on stderr: a line for each request that has ended, and no word of anybody's."""

import re

import httpx

from .served import Served

LINE = re.compile(
    r"req_id=\d+ prompt_tps=\S+ generation_tps=\S+ total_tps=\S+ tokens=\d+ ttft_ms=\S+ queue_ms=\S+ latency_ms=\S+"
    r" finish_reason=(\w+)"
)
SECRET = "Rumpelstilzchen"


def test_a_line_for_each_request_that_ended() -> None:
    with Served("--engine", "null", "--fault", "slow:5") as served:
        served.completion(prompt="Hi", max_tokens=7)
        found = LINE.fullmatch(served.line("^req_id="))
        assert found and found[1] == "length" and " tokens=7 " in found[0]
        served.post("/v1/completions", prompt="Hi", max_tokens=4000, temperature=0, stop=" ")
        assert served.line("^req_id=", 2).endswith("finish_reason=cancelled")  # the daemon knows no text, so no stop


def test_the_log_is_the_daemons_and_can_be_json_or_none() -> None:
    with Served("--engine", "null", "--log", "json") as served:
        served.completion(prompt="Hi", max_tokens=3)
        assert '"tokens":3' in served.line('"event":"request"')
    with Served("--engine", "null", "--log", "none") as served:
        served.completion(prompt="Hi", max_tokens=3)
        assert served.stop() == 0
    assert not any("req_id" in line for line in served.said)


def test_no_prompt_no_answer_and_no_key_is_in_it() -> None:
    """Of requests that went well, were refused, or came as the daemon crashed."""
    ids = [31000 + n for n in range(9)]
    with Served("--engine", "null", "--api-key", SECRET, "--fault", "crash@100") as served:
        served.http.headers["authorization"] = f"Bearer {SECRET}"
        hello = [{"role": "user", "content": SECRET}]
        said = served.post("/v1/chat/completions", messages=hello, max_tokens=20).json()
        answer = said["choices"][0]["message"]["content"]
        for body in (
            {"prompt": SECRET, "suffix": SECRET},
            {"prompt": SECRET * 9999},
            {"prompt": ids, "model": [SECRET]},
        ):
            assert served.post("/v1/completions", **body).status_code == 400
        served.http.post("/v1/completions", content=SECRET)
        served.http.get(f"/{SECRET}", params={"key": SECRET})
        for wrong in ({"x-api-key": SECRET + SECRET}, {"authorization": SECRET}):
            httpx.get(f"{served.url}/v1/models", headers=wrong)
        assert served.post("/v1/completions", prompt=ids, max_tokens=3000, user=SECRET).status_code >= 500
        served.line("the daemon ended with|its frame stream has ended")
        served.stop()
    log = "\n".join(served.said)
    assert SECRET not in log and answer not in log and "31000" not in log
    assert "ids:<9 tokens>" in log
