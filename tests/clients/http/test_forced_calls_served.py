"""A call that has to be made, over each API: the prompt begins it, and the model ends it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .served import Served
from .test_tools_served import ANTHROPIC, OPENAI, RESPONSES, functions, used
from .worded import streamed, with_script, with_words

HELLO = [{"role": "user", "content": "Hi"}]
TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name }}{% endfor %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}: {{ message.content }}<|im_end|>{% endfor %}"
    "{# <tool_call><function= #}<|im_start|>assistant:"
)
REST = "<parameter=text>\né\n</parameter>\n</function>\n</tool_call>"
NAMED, SECOND = f"f>\n{REST}", f"<tool_call>\n<function=g>\n{REST}"
WORDS = [NAMED, REST, SECOND, "Hello"]
# Behind "<function=" the name is missing, behind "<function=f>\n" it is not; each call is followed by one more.
FOLLOWS = {
    "=": NAMED,
    "\n": REST,
    NAMED: SECOND,
    REST: SECOND,
    SECOND: "<|im_end|>",
    ":": "Hello",
    "Hello": "<|im_end|>",
}
F, G = (("f", {"text": "é"}), ("g", {"text": "é"}))
GREEDY: dict[str, Any] = {"max_tokens": 40, "temperature": 0}


@pytest.fixture(scope="module")
def served(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("forced")
    worded = with_words(tiny_model(), folder / "words.gguf", [], WORDS, TEMPLATE)
    with Served(str(with_script(worded, folder / "script.gguf", FOLLOWS)), "--threads", "1") as served:
        yield served


@pytest.mark.parametrize(
    ("choice", "calls"),
    [
        ({}, []),
        ({"tool_choice": "required"}, [F, G]),
        ({"tool_choice": "required", "parallel_tool_calls": False}, [F]),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, [F]),
    ],
)
def test_a_chat(served: Served, choice: dict[str, Any], calls: list[Any]) -> None:
    asked = OPENAI | GREEDY | {"messages": HELLO} | choice
    (answer,) = served.post("/v1/chat/completions", **asked).json()["choices"]
    message = answer["message"]
    assert functions(message.get("tool_calls", [])) == calls and message["content"] == (None if calls else "Hello")
    assert answer["finish_reason"] == ("tool_calls" if calls else "stop")
    chunks = streamed(served, "/v1/chat/completions", **asked)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert functions([call for one in deltas for call in one.get("tool_calls", [])]) == calls


@pytest.mark.parametrize(
    ("choice", "calls"),
    [
        ({"type": "any"}, [F, G]),
        ({"type": "any", "disable_parallel_tool_use": True}, [F]),
        ({"type": "tool", "name": "f"}, [F]),
    ],
)
def test_a_message(served: Served, choice: dict[str, Any], calls: list[Any]) -> None:
    asked = ANTHROPIC | GREEDY | {"messages": HELLO, "tool_choice": choice}
    whole = served.post("/v1/messages", **asked).json()
    assert [(one["name"], one["input"]) for one in whole["content"]] == calls and whole["stop_reason"] == "tool_use"
    assert used(streamed(served, "/v1/messages", **asked)) == calls


@pytest.mark.parametrize(("choice", "calls"), [("required", [F, G]), ({"type": "function", "name": "f"}, [F])])
def test_a_response(served: Served, choice: Any, calls: list[Any]) -> None:
    asked = RESPONSES | {"input": HELLO, "tool_choice": choice}
    whole = served.post("/v1/responses", **asked).json()
    assert [(one["name"], json.loads(one["arguments"])) for one in whole["output"]] == calls
    last = streamed(served, "/v1/responses", **asked)[-1]["response"]
    assert [(one["name"], json.loads(one["arguments"])) for one in last["output"]] == calls


LLAMA = (
    '{# tools; in the format {"name": function name, "parameters": dictionary} #}'
    "{% for message in messages %}<|im_start|>{{ message.role }}: {{ message.content }}<|im_end|>{% endfor %}"
    "<|im_start|>assistant:"
)
BARE = '{"name": "f", "parameters": {"text": "é"}}'


@pytest.fixture(scope="module")
def bare(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("bare")
    worded = with_words(tiny_model(), folder / "words.gguf", [], [BARE], LLAMA)
    follows = {":": BARE, BARE: "<|im_end|>"}
    with Served(str(with_script(worded, folder / "script.gguf", follows)), "--threads", "1") as served:
        yield served


@pytest.mark.parametrize(("most", "reason"), [(1, "length"), (2, "tool_calls"), (9, "tool_calls")])
def test_a_bare_call_ends_as_the_answer_does(bare: Served, most: int, reason: str) -> None:
    """It is one only when the answer has ended: nothing of it was cut off, but the limit may have ended it."""
    asked = OPENAI | {"messages": HELLO, "max_tokens": most, "temperature": 0}
    (answer,) = bare.post("/v1/chat/completions", **asked).json()["choices"]
    assert functions(answer["message"]["tool_calls"]) == [F] and answer["finish_reason"] == reason
    assert streamed(bare, "/v1/chat/completions", **asked)[-1]["choices"][0]["finish_reason"] == reason
