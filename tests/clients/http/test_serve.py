"""The proxy and a daemon on the null engine, whose tokens are the same every time, over real sockets."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from paceline.clients.client import Client

from .served import SECONDS, Served

SLOW = ("--fault", "slow:20", "--slots", "1", "--queue", "1")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served("--engine", "null", "--slots", "16") as served:
        yield served


def events(served: Served, path: str, **body: Any) -> list[Any]:
    answer = served.post(path, stream=True, **body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    data = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in data]


def test_the_tokens_are_those_of_the_daemon(served: Served) -> None:
    with Client.spawn(["--engine", "null"]) as client:
        direct = list(client.start([1, 2, 3], total=30))
        drawn = list(client.start([1, 2, 3], total=30, temp=0.8, seed=9))
    text = served.completion(prompt=[1, 2, 3], max_tokens=30, temperature=0)
    assert text.split() == [str(token) for token in direct]
    text = served.completion(prompt=[1, 2, 3], max_tokens=30, temperature=0.8, seed=9)
    assert text.split() == [str(token) for token in drawn]


def test_a_stream_is_the_same_text(served: Served) -> None:
    asked = {"prompt": "Once", "max_tokens": 50, "temperature": 0}
    whole = served.completion(**asked)
    chunks = events(served, "/v1/completions", **asked, stream_options={"include_usage": True})
    assert chunks[-1] == "[DONE]"
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks[:-2]) == whole
    assert chunks[-3]["choices"][0]["finish_reason"] == "length"
    assert (chunks[-2]["choices"], chunks[-2]["usage"]["total_tokens"]) == ([], 54)


def test_a_stop_string_ends_an_answer_and_its_request(served: Served) -> None:
    whole = served.completion(prompt="Once", max_tokens=20, temperature=0)
    stop = whole[len(whole) // 2 :][:9]
    answer = served.post("/v1/completions", prompt="Once", max_tokens=4000, temperature=0, stop=stop).json()
    assert answer["choices"][0]["text"] == whole[: whole.index(stop)]
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert served.states() == []


def test_a_request_that_follows_another_is_not_queued() -> None:
    asked = {"prompt": "Hi", "max_tokens": 200, "temperature": 0}
    with Served("--engine", "null", "--coalesce", "--fault", "slow:20") as served, ThreadPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(served.post, "/v1/completions", **asked)
        deadline = time.monotonic() + SECONDS
        while not (told := served.http.get("/slots").json())["following"]:
            assert time.monotonic() < deadline and not told["queued"], told
        (leader,) = [slot["request"] for slot in told["slots"] if slot["request"]]
        assert [one["with"] for one in told["following"]] == [leader["req"]] and not told["queued"]
        served.interrupt()


def test_several_answers_echo_and_prompts(served: Served) -> None:
    answer = served.post("/v1/completions", prompt=["a", [66, 67]], n=2, max_tokens=3, seed=5, echo=True).json()
    texts = [choice["text"] for choice in answer["choices"]]
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert [text.startswith("a") for text in texts] == [True, True, False, False]
    assert texts[2].startswith("66 67 ") and texts[2] != texts[3]
    assert (answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]) == (3, 12)


def test_log_probabilities(served: Served) -> None:
    body = {"prompt": "Once", "max_tokens": 5, "temperature": 0}
    told = served.post("/v1/completions", logprobs=2, **body).json()["choices"][0]["logprobs"]
    assert [round(value, 3) for value in told["token_logprobs"]] == [-0.693] * 5
    assert [len(top) for top in told["top_logprobs"]] == [2] * 5
    assert "".join(told["tokens"]) == served.completion(**body)


def test_messages_stream_in_the_order_of_the_contract(served: Served) -> None:
    hello = [{"role": "user", "content": "Hi"}]
    seen = events(served, "/v1/messages", messages=hello, max_tokens=2)
    assert [event["type"] for event in seen] == [
        "message_start", "content_block_start", "content_block_delta", "content_block_delta",
        "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    refused = served.post("/v1/messages", messages=hello)
    assert refused.status_code == 400 and refused.json()["error"]["message"].startswith("max_tokens")


def test_the_tokens_of_a_prompt_are_counted(served: Served) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}], "system": "Be brief."}
    counted = served.post("/v1/messages/count_tokens", **body).json()
    assert counted == {"input_tokens": len("Be brief.\nHi\n")}
    usage = served.post("/v1/messages", max_tokens=1, **body).json()["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == counted["input_tokens"]
    refused = served.post("/v1/messages/count_tokens", messages=[]).json()
    assert (refused["type"], refused["error"]["type"]) == ("error", "invalid_request_error")


def test_sixteen_at_once_get_what_each_gets_alone(served: Served) -> None:
    prompts = [f"prompt {number}" for number in range(16)]

    def ask(prompt: str) -> str:
        return served.completion(prompt=prompt, max_tokens=100, temperature=0)

    with ThreadPoolExecutor(16) as pool:
        together = list(pool.map(ask, prompts))
    assert together == [ask(prompt) for prompt in prompts]


def test_small_routes(served: Served) -> None:
    assert served.http.get("/health").json() == {"status": "ok"}
    assert served.http.get("/v1/models").json()["data"][0]["id"] == "null"
    assert served.http.get("/v1/models/other").status_code == 404
    assert served.post("/tokenize", content="ab").json() == {"tokens": [97, 98], "count": 2}
    assert served.post("/detokenize", tokens=[5, 6]).json() == {"content": "5 6 "}
    assert served.post("/detokenize", tokens=[32000]).status_code == 400
    assert "paceline_slots_total 16.0" in served.http.get("/metrics").text
    assert served.http.get("/nowhere").json()["error"]["type"] == "not_found_error"
    assert served.http.get("/v1/completions").status_code == 405


def test_a_model_has_the_name_that_it_was_given() -> None:
    with Served("--engine", "null", "--model-name", "my/model") as served:
        assert served.http.get("/v1/models").json()["data"][0]["id"] == "my/model"
        assert served.http.get("/v1/models/my/model").status_code == 200
        assert served.post("/v1/completions", prompt="Hi", max_tokens=1).json()["model"] == "my/model"


def test_a_cache_that_is_smaller_than_the_context() -> None:
    with Served("--engine", "null", "--cache-bytes", str(3 * 512)) as served:
        assert served.http.get("/v1/models").json()["data"][0]["context"] == 192
        hello = [{"role": "user", "content": "Hi"}]
        assert served.post("/v1/chat/completions", messages=hello).json()["usage"]["total_tokens"] == 192
        long = served.post("/v1/completions", prompt=[1] * 192).json()["error"]
        assert long["code"] == "context_length_exceeded" and "length is 192 tokens (the whole cache)" in long["message"]
        more = served.post("/v1/completions", prompt=[1], max_tokens=300).json()["error"]
        assert "length is 192 tokens (the whole cache), and 1 tokens of prompt and 300 to come" in more["message"]


def test_bodies_that_are_none(served: Served) -> None:
    for data in (b"", b"{", b"[" * 100_000, b"\xff"):
        assert served.http.post("/v1/completions", content=data).json()["error"]["code"] == "invalid_json"
    half = served.http.post("/v1/completions", content=b'{"prompt": "\\ud800"}')
    assert (half.status_code, half.json()["error"]["param"]) == (400, "prompt")
    long = served.post("/v1/completions", prompt=[1] * 5000)
    assert (long.status_code, long.json()["error"]["code"]) == (400, "context_length_exceeded")
    assert served.post("/v1/completions", prompt="").json()["error"]["code"] == "invalid_value"


def test_a_key_and_a_largest_body() -> None:
    with Served("--engine", "null", "--max-body", "2000", env={"PACELINE_API_KEY": "geheim"}) as served:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": "gehei"}):
            refused = served.http.get("/v1/models", headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
        for headers in ({"authorization": "Bearer geheim"}, {"x-api-key": "geheim"}):
            assert served.http.get("/v1/models", headers=headers).status_code == 200
        assert served.http.get("/health").status_code == 200
        headers = {"x-api-key": "geheim"}
        assert served.http.post("/tokenize", json={"content": "x" * 3000}, headers=headers).status_code == 413
        pieces = httpx.Client(base_url=served.url)
        assert pieces.post("/tokenize", content=(b"x" * 500 for _ in range(9)), headers=headers).status_code == 413
        pieces.close()


def test_a_full_queue_is_429_and_passes() -> None:
    with Served("--engine", "null", *SLOW) as served, ThreadPoolExecutor(2) as pool:
        asked = {"prompt": "Hi", "max_tokens": 100}
        first = [pool.submit(served.post, "/v1/completions", **asked) for _ in range(2)]
        served.until(lambda states: len(states) == 2)
        for more in ({}, {"stream": True}):
            refused = served.post("/v1/completions", **asked, **more)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
            assert refused.json()["error"]["type"] == "rate_limit_error"
        assert [one.result().status_code for one in first] == [200, 200]
        assert served.post("/v1/completions", **asked).status_code == 200
