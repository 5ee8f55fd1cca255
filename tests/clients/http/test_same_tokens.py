"""An answer over HTTP has the tokens that the daemon gives to the same ids when it is asked directly, whatever the
fields say; and each of them makes a difference."""

import asyncio
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from paceline.clients.client import Client
from paceline.clients.http.app import Limits, Proxy
from paceline.clients.http.engine import Engine
from paceline.clients.model_text import open_tokenizer

from .served import Served

IDS = [5, 9, 30, 31, 5, 9]
TOKENS = 30
DRAWN = {"temperature": 1.2, "seed": 7}
GREEDY = {"temperature": 0}


@pytest.fixture(scope="module")
def model(tiny_model: Callable[..., Path]) -> Path:
    return tiny_model()


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with Served(str(model), "--threads", "1") as served:
        yield served


@pytest.fixture(scope="module")
def direct(model: Path) -> Iterator[Callable[..., str]]:
    tokens = open_tokenizer(model)
    with Client.spawn([str(model), "--threads", "1"]) as client:

        def ask(**options: Any) -> str:
            ids = list(client.start(IDS, total=TOKENS, **options))
            return "|".join(tokens.decode([token]) for token in ids)

        yield ask


def spelled(served: Served, **body: Any) -> str:
    """The tokens of an answer, one by one."""
    told = served.post("/v1/completions", prompt=IDS, max_tokens=TOKENS, logprobs=0, **body).json()["choices"][0]
    assert "".join(told["logprobs"]["tokens"]) == told["text"]
    return "|".join(told["logprobs"]["tokens"])


@pytest.mark.parametrize(
    ("field", "value", "option", "same", "more"),
    [
        ("temperature", 0.7, "temp", 0.7, {"seed": 7}),
        ("seed", 8, "seed", 8, DRAWN),
        ("top_p", 0.3, "top_p", 0.3, DRAWN),
        ("top_k", 2, "top_k", 2, DRAWN),
        ("min_p", 0.5, "min_p", 0.5, DRAWN),
        ("frequency_penalty", 1.5, "freq_penalty", 1.5, DRAWN),
        ("presence_penalty", 2, "pres_penalty", 2.0, DRAWN),
        ("repetition_penalty", 3, "rep_penalty", 3.0, DRAWN),
        ("logit_bias", {"40": 9.5, "41": -100}, "logit_bias", [(40, 9.5), (41, -100.0)], DRAWN),
        ("ignore_eos", True, "ignore_eos", True, {**DRAWN, "logit_bias": {"2": 3}}),
        ("top_p", 0, "top_p", 1e-6, DRAWN),
    ],
)
def test_each_field_is_the_daemons_option(
    served: Served, direct: Callable[..., str], field: str, value: Any, option: str, same: Any, more: dict[str, Any]
) -> None:
    names = {"temperature": "temp", "seed": "seed", "logit_bias": "logit_bias"}
    options = {names[name]: value for name, value in more.items()}
    if isinstance(bias := options.get("logit_bias"), dict):
        options["logit_bias"] = [(int(token), float(value)) for token, value in bias.items()]
    found = spelled(served, **(more | {field: value}))
    assert found == direct(**(options | {option: same}))
    assert found != spelled(served, **more), "expected that it makes a difference"


def test_greedy(served: Served, direct: Callable[..., str]) -> None:
    assert spelled(served, **GREEDY) == direct()
    assert spelled(served, **GREEDY, stream=None, n=1, user="me") == direct()


def test_a_bias_for_a_token_that_is_not_there_is_refused_by_its_name(served: Served) -> None:
    refused = served.post("/v1/completions", prompt=IDS, logit_bias={"500": 1})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "logit_bias")


def test_log_probabilities_sum_to_one_over_the_vocabulary(served: Served) -> None:
    """Each token's own is told with those of the five likeliest, as a sixth if it is none of them; no more is told."""
    told = served.post("/v1/completions", prompt=IDS, max_tokens=TOKENS, logprobs=5, **DRAWN).json()["choices"][0][
        "logprobs"
    ]
    for token, own, top in zip(told["tokens"], told["token_logprobs"], told["top_logprobs"], strict=True):
        assert len(top) in (5, 6) and sum(map(math.exp, top.values())) <= 1 + 1e-6
        assert top[token] == own and (len(top) == 5 or own == min(top.values()))


def test_an_echo_tells_what_an_answer_told_of_the_same_tokens(served: Served) -> None:
    """An answer's tokens, asked again as a prompt: the log probabilities have the same bits, also of a token that ends
    a request."""
    body = {"temperature": 1, "seed": 3, "ignore_eos": True, "logit_bias": {"2": 8}, "logprobs": 3, "max_tokens": 20}
    told = served.post("/v1/completions", prompt=IDS, **body).json()["choices"][0]["logprobs"]
    assert "<|im_end|>" in told["tokens"]
    ids = IDS + served.post("/tokenize", content="".join(told["tokens"])).json()["tokens"]
    assert len(ids) == len(IDS) + 20
    asked = {"prompt": [ids, ids[:1]], "echo": True, "logprobs": 3, "max_tokens": 2, "n": 2, "temperature": 0}
    answer = served.post("/v1/completions", **asked).json()
    for choice in answer["choices"][:2]:
        again = choice["logprobs"]
        assert "".join(again["tokens"]) == choice["text"] and len(again["tokens"]) == len(ids) + 2
        assert (again["token_logprobs"][0], again["top_logprobs"][0]) == (None, None)
        for name in ("tokens", "token_logprobs", "top_logprobs"):
            assert again[name][len(IDS) : len(ids)] == told[name]
        offsets = [sum(map(len, again["tokens"][:place])) for place in range(len(again["tokens"]))]
        assert again["text_offset"] == offsets
    assert [len(choice["logprobs"]["tokens"]) for choice in answer["choices"][2:]] == [3, 3]
    assert answer["usage"]["prompt_tokens"] == len(ids) + 1 and answer["usage"]["completion_tokens"] == 8
    assert served.states() == []


@pytest.mark.parametrize("n", [1, 2])
def test_an_echo_without_an_answer_scores_a_prompt(served: Served, n: int) -> None:
    asked = {"prompt": [IDS, IDS[:2]], "echo": True, "logprobs": 1, "n": n, "temperature": 0}
    alone = served.post("/v1/completions", max_tokens=0, **asked).json()
    answered = served.post("/v1/completions", max_tokens=1, **asked).json()
    assert len(alone["choices"]) == 2 * n and alone["usage"]["completion_tokens"] == 0
    for choice, other in zip(alone["choices"], answered["choices"], strict=True):
        assert choice["finish_reason"] == "length" and other["text"].startswith(choice["text"]) and choice["text"]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            assert choice["logprobs"][name] == other["logprobs"][name][:-1]
    lines = served.post("/v1/completions", max_tokens=0, stream=True, **asked).text.split("\n\n")
    assert lines[-2] == "data: [DONE]" and sum('"length"' in line for line in lines) == 2 * n
    refused = served.post("/v1/completions", max_tokens=0, prompt=IDS)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "max_tokens")


def test_what_an_echo_asks_of_the_daemon_is_not_counted(served: Served) -> None:
    def counted() -> list[float]:
        found = dict(line.rsplit(" ", 1) for line in served.http.get("/metrics").text.splitlines() if line[0] != "#")
        ended = sum(float(value) for name, value in found.items() if name.startswith("paceline_requests_total"))
        return [ended, *(float(found[f"paceline_{name}_tokens_total"]) for name in ("prompt", "generated"))]

    before = counted()
    asked = {"prompt": IDS * 4, "echo": True, "logprobs": 0, "max_tokens": 3, "ignore_eos": True}
    assert len(served.post("/v1/completions", **asked).json()["choices"][0]["logprobs"]["tokens"]) == 27
    assert [after - first for first, after in zip(before, counted(), strict=True)] == [1, 24, 3]


def test_an_echo_streams(served: Served) -> None:
    asked = {"prompt": IDS, "echo": True, "logprobs": 0, "max_tokens": 5, "temperature": 0}
    whole = served.post("/v1/completions", **asked).json()["choices"][0]
    lines = served.post("/v1/completions", stream=True, **asked).text.split("\n\n")
    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines if line.startswith("data: {")]
    assert "".join(choice["text"] for choice in choices) == whole["text"]
    told = [choice["logprobs"] for choice in choices if choice["logprobs"]]
    for name in ("tokens", "token_logprobs", "text_offset"):
        assert [value for one in told for value in one[name]] == whole["logprobs"][name]


def test_an_echo_is_the_prompt_as_it_was_sent(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With log probabilities too, and whatever the tokenizer puts before it: here a begin token and a blank."""

    async def run() -> None:
        engine = Engine([str(model), "--threads", "1", "--auto"], lambda line: None)
        await engine.open()
        tokens = engine.texts._tokens
        encode = tokens.encode
        monkeypatch.setattr(tokens, "encode", lambda text, special=True: [1, *encode(" " + text, special)])
        transport = httpx.ASGITransport(Proxy(engine, Limits()).app())
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            for logprobs in (None, 0):
                asked = {"prompt": "ember to", "max_tokens": 2, "echo": True, "logprobs": logprobs, "temperature": 0}
                choice = (await http.post("/v1/completions", json=asked)).json()["choices"][0]
                assert choice["text"].startswith("ember to")
        await engine.close()
        told = choice["logprobs"]
        assert told["tokens"][0] == "<|im_start|>" and told["token_logprobs"][0] is None
        assert told["text_offset"][:2] == [0, 0] and told["text_offset"][-2] == 8
        for place, token in zip(told["text_offset"][2:], told["tokens"][2:], strict=True):
            assert token.startswith("bytes:") or choice["text"].startswith(token, place)

    asyncio.run(run())


def test_an_echo_does_not_wait_for_its_own_answers(model: Path) -> None:
    """They would hold all slots. The log has the requests in the order of their ends."""
    asked = {"prompt": IDS, "echo": True, "logprobs": 0, "max_tokens": 30, "n": 4, "ignore_eos": True}
    with Served(str(model), "--threads", "1") as served:
        assert served.post("/v1/completions", stream=True, **asked).status_code == 200
        served.line("^req_id=", 9)
        ends = [" tokens=1 " in line for line in served.said if line.startswith("req_id=")]
    assert ends == [True] * 5 + [False] * 4


def test_an_echo_ends_when_its_reader_goes_away(model: Path) -> None:
    asked = {"prompt": IDS * 100, "echo": True, "logprobs": 0}
    with Served(str(model), "--threads", "1", "--slots", "1", "--fault", "slow:50") as served:  # 30 s of steps
        with pytest.raises(httpx.ReadTimeout):
            served.http.post("/v1/completions", json=asked, timeout=0.5)
        began = time.monotonic()
        served.until(lambda states: states == [])
        assert served.stop() == 0 and time.monotonic() - began < 10


def test_an_echo_of_too_much_is_refused(served: Served) -> None:
    refused = served.post("/v1/completions", prompt=[5] * 2049, echo=True, logprobs=1)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "echo")
    assert served.post("/v1/completions", prompt=[5] * 2049, echo=True, max_tokens=1).status_code == 200
