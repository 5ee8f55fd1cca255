"""A model that answers in the harmony format and calls tools, over each API: its raw text, taken apart."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from paceline.clients.harmony import MARKS
from paceline.clients.model_text import open_chat_template, open_tokenizer

from .served import Served
from .speech.test_channels import sent, texts
from .test_tools_served import ANTHROPIC, GREEDY, OPENAI, RESPONSES, functions, used
from .worded import streamed, with_words

# What a user says behind the tilde, the answer begins with.
TEMPLATE = (
    "{# <|channel|> #}{% set said = messages[0].content.split('~') %}"
    "<|start|>user<|message|>{{ said[0] }}<|end|><|start|>assistant{{ said[1] }}"
)
WORDS = ["analysis", "final", " to=functions.g", '{"text": "é"}', "no JSON", "Hello"]
BEGUN = ["", "<|channel|>analysis<|message|>", "<|channel|>final<|message|>", " to=functions.f<|message|>"]
CHATS = [[{"role": "user", "content": f"{word}~{begun}"}] for word in (*WORDS, *MARKS) for begun in BEGUN]
Apart = tuple[str, str, list[tuple[str, Any]]]


@pytest.fixture(scope="module")
def model(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It writes little but marks and words."""
    path = tmp_path_factory.mktemp("harmony") / "calls.gguf"
    return with_words(tiny_model(seed=4), path, MARKS, WORDS, TEMPLATE, others=0.01)


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with Served(str(model), "--threads", "1") as served:
        yield served


def apart(served: Served, model: Path, chat: Any) -> Apart:
    """Of what the model goes on with after the same prompt: thoughts, text and calls."""
    prompt = open_chat_template(model).render(chat, **OPENAI)
    ids = open_tokenizer(model).encode_rendered(prompt)
    parts, _, _ = sent(served.completion(prompt=ids, **GREEDY), tools=True, prompt=prompt)
    return *texts(parts), [(one.call.name, json.loads(one.call.arguments)) for one in parts if one.call]


def test_each_api_has_the_same_parts(served: Served, model: Path) -> None:
    seen = set()
    for chat in CHATS:
        expected = apart(served, model, chat)
        assert of_a_chat(served, chat) == of_a_message(served, chat) == of_a_response(served, chat) == expected, chat
        seen |= {place for place, part in enumerate(expected) if part}
    assert seen == {0, 1, 2}, "expected answers with thoughts, text and calls"


def of_a_chat(served: Served, chat: Any) -> Apart:
    asked = OPENAI | GREEDY | {"messages": chat}
    (answer,) = served.post("/v1/chat/completions", **asked).json()["choices"]
    message = answer["message"]
    found = (
        message.get("reasoning_content", ""), message["content"] or "", functions(message.get("tool_calls", [])),
    )  # fmt: skip
    deltas = [chunk["choices"][0]["delta"] for chunk in streamed(served, "/v1/chat/completions", **asked)]
    thought, said = ("".join(one.get(name, "") for one in deltas) for name in ("reasoning_content", "content"))
    assert found == (thought, said, functions([call for one in deltas for call in one.get("tool_calls", [])]))
    return found


def of_a_message(served: Served, chat: Any) -> Apart:
    asked = ANTHROPIC | GREEDY | {"messages": chat}
    blocks = served.post("/v1/messages", **asked).json()["content"]
    thought, said = ("".join(one.get(kind, "") for one in blocks) for kind in ("thinking", "text"))
    found = (thought, said, [(one["name"], one["input"]) for one in blocks if one["type"] == "tool_use"])
    events = streamed(served, "/v1/messages", **asked)
    deltas = [event["delta"] for event in events if "delta" in event]
    thought, said = ("".join(one.get(kind, "") for one in deltas) for kind in ("thinking", "text"))
    assert found == (thought, said, used(events))
    return found


def of_a_response(served: Served, chat: Any) -> Apart:
    asked = RESPONSES | {"input": chat}
    items = served.post("/v1/responses", **asked).json()["output"]
    thought, said = (
        "".join(one["content"][0]["text"] for one in items if one["type"] == kind) for kind in ("reasoning", "message")
    )
    calls = [(one["name"], json.loads(one["arguments"])) for one in items if one["type"] == "function_call"]
    events = streamed(served, "/v1/responses", **asked)
    kinds = ("response.reasoning_text.delta", "response.output_text.delta")
    assert (thought, said) == tuple("".join(one["delta"] for one in events if one["type"] == kind) for kind in kinds)
    return thought, said, calls
