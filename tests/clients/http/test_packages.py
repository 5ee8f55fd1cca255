"""The packages that people have, against the demo model over a real proxy."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from paceline.clients.client import Client
from paceline.clients.model_text import open_tokenizer

from .conftest import HELLO
from .served import Served

pytestmark = pytest.mark.slow


def test_openai(proxy: Served, direct: str) -> None:
    import openai

    client = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="geheim", max_retries=0)
    asked: dict[str, Any] = {"model": "any", "messages": HELLO, "max_tokens": 40, "temperature": 0}
    whole = client.chat.completions.create(**asked, logprobs=True, top_logprobs=3)
    assert whole.choices[0].message.content == direct
    told = whole.choices[0].logprobs
    assert told and told.content and whole.usage
    assert len(told.content) == whole.usage.completion_tokens
    assert "".join(entry.token for entry in told.content) == direct
    for entry in told.content:
        assert entry.logprob == max(one.logprob for one in entry.top_logprobs)
        assert sum(math.exp(one.logprob) for one in entry.top_logprobs) <= 1 + 1e-5
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == direct
    assert chunks[-1].usage and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    several = client.chat.completions.create(**(asked | {"temperature": 0.9, "max_tokens": 8}), n=3, seed=1)
    assert len({choice.message.content for choice in several.choices}) == 3
    text = client.completions.create(model="any", prompt="Once upon a time", max_tokens=5, temperature=0, echo=True)
    assert text.choices[0].text.startswith("Once upon a time")
    assert [model.id for model in client.models.list()] == [whole.model]


def test_openai_refusals(proxy: Served) -> None:
    import openai

    client = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="geheim", max_retries=0)
    asked: dict[str, Any] = {"model": "any", "messages": HELLO, "max_tokens": 4}
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**asked, modalities=["audio"])
    assert refused.value.param == "modalities"
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").chat.completions.create(**asked)


def spelled(name: str) -> bytes:
    """A token's name is its text, or its bytes where they are no characters."""
    return bytes.fromhex(name.removeprefix("bytes:").replace("\\x", "")) if name.startswith("bytes:") else name.encode()


def test_token_for_token(proxy: Served, demo_model: Path) -> None:
    """Each answer's tokens, whole and streamed, are the daemon's for the same ids: greedy, and drawn with a seed."""
    tokens = open_tokenizer(demo_model)
    texts = ["Once upon a time", "def add(a, b):", "Žluťoučký kůň 🐎", "1, 2, 3,", "The capital of France is"]
    drawn = {"temperature": 0.9, "top_p": 0.9, "top_k": 50, "min_p": 0.01, "frequency_penalty": 0.3, "seed": 11}
    same = {"temp": 0.9, "top_p": 0.9, "top_k": 50, "min_p": 0.01, "freq_penalty": 0.3, "seed": 11}
    with Client.spawn([str(demo_model), "--max-ctx", "512"]) as client:
        for text in texts:
            ids = tokens.encode(text)
            assert proxy.post("/tokenize", content=text).json()["tokens"] == ids
            for fields, options in (({"temperature": 0}, {}), (drawn, same)):
                expected = list(client.start(ids, total=40, **options))
                asked = {"prompt": ids, "max_tokens": 40, "logprobs": 0} | fields
                told = proxy.post("/v1/completions", **asked).json()["choices"][0]["logprobs"]
                for name, token in zip(told["tokens"], expected, strict=True):
                    assert tokens.decode([token]) in (name, spelled(name).decode(errors="replace"))
                assert b"".join(map(spelled, told["tokens"])).decode(errors="replace") == tokens.decode(expected)
                lines = proxy.post("/v1/completions", **asked, stream=True).text.split("\n\n")
                chunks = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines if line[6:7] == "{"]
                assert [word for chunk in chunks if chunk["logprobs"] for word in chunk["logprobs"]["tokens"]] == told[
                    "tokens"
                ]
                assert "".join(chunk["text"] for chunk in chunks) == tokens.decode(expected)


def test_echo_through_openai(proxy: Served) -> None:
    """What language-model harnesses do: the log probabilities of a text that they bring."""
    import openai

    client = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="geheim", max_retries=0)
    last = {}
    for word in (" France", " banana"):
        prompt = f"Paris is the capital of{word}"
        answer = client.completions.create(
            model="any", prompt=prompt, max_tokens=1, echo=True, logprobs=1, temperature=0
        )
        told = answer.choices[0].logprobs
        assert told and told.token_logprobs and told.tokens and told.token_logprobs[0] is None
        assert "".join(told.tokens[:-1]) == prompt and all(value <= 0 for value in told.token_logprobs[1:])
        last[word] = told.token_logprobs[-2]
    assert last[" France"] > last[" banana"] + 3


def test_anthropic(proxy: Served, direct: str) -> None:
    import anthropic

    client = anthropic.Anthropic(base_url=proxy.url, api_key="geheim", max_retries=0)
    asked: dict[str, Any] = {"model": "any", "messages": HELLO, "max_tokens": 40}
    asked["extra_body"] = {"temperature": 0}  # the package has no such argument any more, the API does
    whole = client.messages.create(**asked)
    assert whole.content[0].type == "text" and whole.content[0].text == direct
    with client.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream) == direct
        final = stream.get_final_message()
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)
    stopped = client.messages.create(**asked, stop_sequences=[direct[10:14]])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", direct[10:14])
    counted = client.messages.count_tokens(model="any", messages=HELLO).input_tokens
    assert counted == whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)
    with pytest.raises(anthropic.BadRequestError, match="tools"):
        client.messages.create(**asked, tools=[{"name": "x", "input_schema": {"type": "object"}}])


def test_litellm(proxy: Served, direct: str) -> None:
    import litellm

    asked: dict[str, Any] = {"model": "openai/any", "messages": HELLO, "max_tokens": 40, "temperature": 0}
    asked |= {"api_base": f"{proxy.url}/v1", "api_key": "geheim"}
    assert litellm.completion(**asked).choices[0].message.content == direct
    chunks = litellm.completion(**asked, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == direct


def test_a_full_queue_and_what_openai_makes_of_it() -> None:
    """429 is RateLimitError; with its retries, which heed Retry-After, the same call comes through."""
    import openai

    asked: dict[str, Any] = {"model": "any", "prompt": "Hi", "max_tokens": 60}
    with Served(
        "--engine", "null", "--fault", "slow:20", "--slots", "1", "--queue", "0", "--max-body", "9999"
    ) as proxy:
        client = openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="any", max_retries=0)
        with client.completions.create(**(asked | {"max_tokens": 3000}), stream=True) as stream:
            next(iter(stream))
            with pytest.raises(openai.RateLimitError) as full:
                client.completions.create(**asked)
            assert full.value.code == "queue_full"
        assert proxy.line("finish_reason=cancelled")  # the stream was closed
        proxy.until(lambda states: states == [])
        with client.completions.create(**asked, stream=True) as stream:
            next(iter(stream))
            assert client.with_options(max_retries=5).completions.create(**asked).choices[0].finish_reason == "length"
        with pytest.raises(openai.APIStatusError) as large:
            client.completions.create(**(asked | {"prompt": "x" * 10000}))
        assert large.value.status_code == 413
        with pytest.raises(openai.BadRequestError) as long:
            client.completions.create(**(asked | {"prompt": "x" * 5000}))
        assert (long.value.code, long.value.param) == ("context_length_exceeded", "prompt")
