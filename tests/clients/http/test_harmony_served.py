"""A model that answers in the harmony format, over HTTP and by `generate`: its text, without marks and headers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from paceline.clients import Client
from paceline.clients.harmony import MARKS
from paceline.clients.model_text import open_chat_template, open_tokenizer

from ..test_harmony import told
from .served import Served
from .worded import streamed, with_words

HELLO = [{"role": "user", "content": "Hi"}]
WORDS = ["analysis", "final", "commentary", "assistant"]
TEMPLATE = (
    "{% if reasoning_effort is defined %}<|start|>system<|message|>Reasoning: {{ reasoning_effort }}<|end|>{% endif %}"
    "{% for message in messages %}<|start|>{{ message.role }}"
    "{% if message.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
TOKENS = 60
SEEDS = range(8)


@pytest.fixture(scope="module")
def model(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_words(tiny_model(), tmp_path_factory.mktemp("harmony") / "harmony.gguf", MARKS, WORDS, TEMPLATE)


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with Served(str(model), "--threads", "1") as served:
        yield served


@pytest.fixture(scope="module")
def options(model: Path) -> dict[str, Any]:
    """With them it writes marks and headers more often than its weights would."""
    words = open_tokenizer(model)
    often = ("<|channel|>", "analysis", "<|message|>")
    bias = {str(words.encode(word)[-1]): 7 if word in often else 3 for word in (*MARKS, *WORDS)}
    return {"max_tokens": TOKENS, "temperature": 1, "logit_bias": bias, "ignore_eos": True}


def prompt(model: Path, **names: Any) -> list[int]:
    return open_tokenizer(model).encode_rendered(open_chat_template(model).render(HELLO, **names))


def test_a_chat(served: Served, model: Path, options: dict[str, Any]) -> None:
    both = 0
    for seed in SEEDS:
        more = options | {"seed": seed}
        thought, said = told(served.completion(prompt=prompt(model), **more))
        whole = served.post("/v1/chat/completions", messages=HELLO, logprobs=True, **more).json()
        answer, used = whole["choices"][0], whole["usage"]
        message = answer["message"]
        assert (message.get("reasoning_content", ""), message["content"]) == (thought, said)
        assert len(answer["logprobs"]["content"]) == TOKENS == used["completion_tokens"]
        assert bool(thought) <= bool(used["completion_tokens_details"]["reasoning_tokens"])
        deltas = [
            chunk["choices"][0]["delta"] for chunk in streamed(served, "/v1/chat/completions", messages=HELLO, **more)
        ]
        assert "".join(delta.get("reasoning_content", "") for delta in deltas) == thought
        assert "".join(delta.get("content", "") for delta in deltas) == said
        both += bool(thought and said)
    assert both, "expected a seed with which it thinks and speaks"


def test_the_effort_goes_to_the_template(served: Served, model: Path) -> None:
    plain, high = prompt(model), prompt(model, reasoning_effort="high")
    assert len(plain) < len(high)
    for more, ids in (
        ({}, plain),
        ({"reasoning_effort": "high"}, high),
        ({"chat_template_kwargs": {"reasoning_effort": "high"}}, high),
        ({"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high"}}, high),
    ):
        answer = served.post("/v1/chat/completions", messages=HELLO, max_tokens=1, **more).json()
        assert answer["usage"]["prompt_tokens"] == len(ids), more


def test_generate_spells_thoughts_as_other_models_do(model: Path, options: dict[str, Any]) -> None:
    bias = [(int(token), float(value)) for token, value in options["logit_bias"].items()]
    both = 0
    with Client.spawn([str(model), "--threads", "1"]) as client:
        for seed in SEEDS:
            more: dict[str, Any] = {"temp": 1.0, "logit_bias": bias, "ignore_eos": True, "seed": seed}
            raw = "".join(piece.text for piece in client.generate(prompt(model), TOKENS, **more))
            text = "".join(piece.text for piece in client.generate(HELLO, TOKENS, **more))
            thought, said = told(raw)
            assert any(mark in raw for mark in MARKS) and not any(mark in text for mark in MARKS)
            assert bool(thought) == ("<think>\n" in text)
            both += bool(thought and said)
            for line in (*thought.split("\n"), *said.split("\n")):
                assert line in text
    assert both
