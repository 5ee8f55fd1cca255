"""A model that thinks and calls as Gemma 4 does, over HTTP: its marks are control tokens, and are in no answer."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .gemma_templates import LATER
from .served import Served
from .test_tools_served import ANTHROPIC, OPENAI, RESPONSES, functions, used
from .worded import streamed, with_script, with_words

HELLO = [{"role": "user", "content": "Hi"}]
MARKS = ["<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", '<|"|>', "<|tool_response>"]
THOUGHT, CALL, STRING, ANY, ONE = "thought\nHm.\n", "call:f{number:5,text:", 'é<|"|>}', "f{number:7}", "number:7}"
# An answer thinks where the prompt ends with a line, says something where it ends with a thought, and calls; a call
# that the prompt has begun goes on behind a colon or a brace.
FOLLOWS = {
    "\n": "<|channel>", "<|channel>": THOUGHT, THOUGHT: "<channel|>", "<channel|>": "I look.\n",
    "I look.\n": "<|tool_call>", "<|tool_call>": CALL, CALL: '<|"|>', '<|"|>': STRING, STRING: "<tool_call|>",
    ":": ANY, ANY: "<tool_call|>", "{": ONE, ONE: "<tool_call|>", "<tool_call|>": "<|tool_response>",
}  # fmt: skip
CALLS = [("f", {"number": 5, "text": "é"})]
GREEDY: dict[str, Any] = {"max_tokens": 40, "temperature": 0}


@pytest.fixture(scope="module")
def served(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("gemma")
    words = [THOUGHT, CALL, STRING, ANY, ONE, "I look.\n"]
    worded = with_words(tiny_model(), folder / "words.gguf", MARKS, words, LATER)
    with Served(str(with_script(worded, folder / "script.gguf", FOLLOWS)), "--threads", "1") as served:
        yield served


@pytest.mark.parametrize("effort", ["none", "low"])
def test_a_chat(served: Served, effort: str) -> None:
    asked = OPENAI | GREEDY | {"messages": HELLO, "reasoning_effort": effort}
    whole = served.post("/v1/chat/completions", **asked).json()
    (answer,) = whole["choices"]
    message, thought = answer["message"], "" if effort == "none" else "Hm."
    assert (message.get("reasoning_content", ""), message["content"]) == (thought, "I look.")
    assert functions(message["tool_calls"]) == CALLS and answer["finish_reason"] == "tool_calls"
    assert (whole["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0) is bool(thought)
    chunks = streamed(served, "/v1/chat/completions", **asked)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    said = ["".join(one.get(name) or "" for one in deltas) for name in ("reasoning_content", "content")]
    assert said == [thought, "I look."]
    assert functions([call for one in deltas for call in one.get("tool_calls", [])]) == CALLS
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_message_and_a_response(served: Served) -> None:
    asked = ANTHROPIC | GREEDY | {"messages": HELLO, "thinking": {"type": "adaptive"}}
    whole = served.post("/v1/messages", **asked).json()
    assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use"]
    assert (whole["content"][0]["thinking"], whole["content"][1]["text"]) == ("Hm.", "I look.")
    assert [(one["name"], one["input"]) for one in whole["content"][2:]] == CALLS
    assert used(streamed(served, "/v1/messages", **asked)) == CALLS and whole["stop_reason"] == "tool_use"
    items = served.post("/v1/responses", **RESPONSES, input=HELLO, reasoning={"effort": "high"}).json()["output"]
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call"]


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "f"}}])
@pytest.mark.parametrize("thinking", [False, True])
def test_a_call_that_has_to_be_made(served: Served, choice: Any, thinking: bool) -> None:
    more = {"tool_choice": choice, "chat_template_kwargs": {"enable_thinking": thinking}}
    (answer,) = served.post("/v1/chat/completions", **OPENAI, **GREEDY, messages=HELLO, **more).json()["choices"]
    assert functions(answer["message"]["tool_calls"]) == [("f", {"number": 7})]
    assert answer["message"]["content"] is None and "reasoning_content" not in answer["message"]


def test_an_answer_goes_on_behind_a_result(served: Served) -> None:
    first = served.post("/v1/chat/completions", **OPENAI, **GREEDY, messages=HELLO).json()["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "20"}
    chat = [*HELLO, first, result]
    (answer,) = served.post("/v1/chat/completions", **OPENAI, **GREEDY, messages=chat).json()["choices"]
    assert (answer["message"]["reasoning_content"], answer["message"]["content"]) == ("Hm.", "I look.")
