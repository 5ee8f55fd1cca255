"""A model that thinks, over HTTP: what it thinks and what it says is its text, cut at the mark."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from paceline.clients.model_text import open_chat_template

from .served import Served
from .worded import streamed

HELLO = [{"role": "user", "content": "Hi"}]
TOKENS = 40
SEEDS = range(6)


@pytest.fixture(scope="module")
def model(tiny_model: Callable[..., Path]) -> Path:
    return tiny_model(chat="thinking")


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with Served(str(model), "--threads", "1") as served:
        yield served


@pytest.fixture(scope="module")
def options(served: Served) -> dict[str, Any]:
    """With them it comes to an end of its thoughts sooner or later."""
    (mark,) = served.post("/tokenize", content="</think>").json()["tokens"]
    return {"max_tokens": TOKENS, "temperature": 1, "logit_bias": {str(mark): 4}, "ignore_eos": True}


def text(served: Served, model: Path, more: dict[str, Any], **names: Any) -> str:
    """What the model goes on with after the same prompt, as it is."""
    rendered = open_chat_template(model).render(HELLO, **names)
    return served.completion(prompt=served.post("/tokenize", content=rendered).json()["tokens"], **more)


def test_a_chat(served: Served, model: Path, options: dict[str, Any]) -> None:
    both = 0
    for seed in SEEDS:
        more = options | {"seed": seed}
        thought, mark, said = text(served, model, more).partition("</think>")
        whole = served.post("/v1/chat/completions", messages=HELLO, **more).json()
        message, told = whole["choices"][0]["message"], whole["usage"]
        assert message.get("reasoning_content", "") == thought.strip()
        assert message["content"] == said.lstrip()
        assert told["completion_tokens"] == TOKENS >= told["completion_tokens_details"]["reasoning_tokens"]
        both += bool(mark and thought.strip() and said.strip())
        deltas = [
            chunk["choices"][0]["delta"] for chunk in streamed(served, "/v1/chat/completions", messages=HELLO, **more)
        ]
        assert "".join(delta.get("reasoning_content", "") for delta in deltas) == thought.strip()
        assert "".join(delta.get("content", "") for delta in deltas) == said.lstrip()
        asked = {"max_output_tokens" if name == "max_tokens" else name: value for name, value in more.items()}
        items = served.post("/v1/responses", input=HELLO, **asked).json()["output"]
        texts = {item["type"]: item["content"][0]["text"] for item in items}
        assert (texts.get("reasoning", ""), texts["message"]) == (thought.strip(), said.lstrip())
    assert both, "expected a seed with which it thinks and speaks"


def test_several_answers_think_each_for_itself(served: Served, options: dict[str, Any]) -> None:
    asked = options | {"messages": HELLO, "seed": 0, "n": 4}
    together = served.post("/v1/chat/completions", **asked).json()["choices"]
    for index, choice in enumerate(together):
        alone = served.post("/v1/chat/completions", **(asked | {"seed": index, "n": 1})).json()["choices"][0]
        assert alone["message"] == choice["message"]


def test_log_probabilities_are_of_all_tokens(served: Served, options: dict[str, Any]) -> None:
    answer = served.post("/v1/chat/completions", messages=HELLO, logprobs=True, seed=1, **options).json()["choices"][0]
    assert len(answer["logprobs"]["content"]) == TOKENS


def test_thoughts_can_be_turned_off(served: Served, model: Path, options: dict[str, Any]) -> None:
    still = {"enable_thinking": False}
    asked = options | {"seed": 3, "logit_bias": None}
    whole = served.post("/v1/chat/completions", messages=HELLO, chat_template_kwargs=still, **asked).json()
    message = whole["choices"][0]["message"]
    assert message["content"] == text(served, model, asked, **still) and "reasoning_content" not in message


def test_a_message_thinks_if_it_is_asked_to(served: Served, model: Path) -> None:
    asked = {"messages": HELLO, "max_tokens": 20, "temperature": 0}
    plain = {"max_tokens": 20, "temperature": 0}
    for thinking, names in (({"type": "adaptive"}, {}), (None, {"enable_thinking": False})):
        raw = text(served, model, plain, **names)
        thought, _, said = raw.partition("</think>") if thinking else ("", "", raw)
        blocks = served.post("/v1/messages", thinking=thinking, **asked).json()["content"]
        assert [(block["type"], block[block["type"]]) for block in blocks] == [
            *([("thinking", thought.strip())] if thought.strip() else []), ("text", said),
        ]  # fmt: skip
        events = streamed(served, "/v1/messages", thinking=thinking, **asked)
        kinds = [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"]
        assert kinds == [block["type"] for block in blocks]
        deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
        assert "".join(delta.get("thinking", "") for delta in deltas) == thought.strip()
        assert "".join(delta.get("text", "") for delta in deltas) == said


def test_thoughts_of_before_go_to_the_template() -> None:
    from paceline.clients.http.requests.anthropic import read_message
    from paceline.clients.http.requests.openai import read_chat

    expected = {"role": "assistant", "content": "Yes", "reasoning_content": "Hm"}
    past = [*HELLO, {"role": "assistant", "content": "Yes", "reasoning_content": "Hm"}, *HELLO]
    (chat,) = read_chat({"messages": past}).prompts
    parts = [{"type": "thinking", "thinking": "Hm", "signature": ""}, {"type": "redacted_thinking", "data": "x"}]
    parts.append({"type": "text", "text": "Yes"})
    (message,) = read_message(
        {"messages": [*HELLO, {"role": "assistant", "content": parts}, *HELLO], "max_tokens": 5}
    ).prompts
    assert chat.messages[1] == expected == message.messages[1]  # type: ignore[union-attr]


@pytest.mark.slow
def test_the_packages_find_the_thoughts(served: Served, options: dict[str, Any]) -> None:
    import anthropic
    import openai

    asked = options | {"messages": HELLO, "seed": 1}
    raw = served.post("/v1/chat/completions", **asked).json()["choices"][0]["message"]
    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="any", max_retries=0)
    ignores = {"extra_body": {"ignore_eos": asked.pop("ignore_eos")}}
    whole = client.chat.completions.create(model="any", **asked, **ignores).choices[0].message
    assert (whole.content, (whole.model_extra or {}).get("reasoning_content")) == (
        raw["content"],
        raw["reasoning_content"],
    )
    deltas = [
        chunk.choices[0].delta for chunk in client.chat.completions.create(model="any", stream=True, **asked, **ignores)
    ]
    assert (
        "".join((delta.model_extra or {}).get("reasoning_content", "") for delta in deltas) == raw["reasoning_content"]
    )
    other = anthropic.Anthropic(base_url=served.url, api_key="any", max_retries=0)
    body: dict[str, Any] = {"model": "any", "messages": HELLO, "max_tokens": 20, "extra_body": {"temperature": 0}}
    for thinking, kinds in (({"type": "adaptive"}, ["thinking", "text"]), ({"type": "disabled"}, ["text"])):
        message = other.messages.create(**body, thinking=thinking)
        with other.messages.stream(**body, thinking=thinking) as stream:
            final = stream.get_final_message()
        assert [block.type for block in message.content] == kinds
        assert [block.model_dump() for block in final.content] == [block.model_dump() for block in message.content]
