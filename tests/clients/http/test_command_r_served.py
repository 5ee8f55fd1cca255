"""A model that thinks, answers and calls as Command R7B does, over HTTP: all of it stands between marks, and these are
in no answer."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .served import Served
from .test_tools_served import ANTHROPIC, OPENAI, functions, used
from .worded import streamed, with_script, with_words

HELLO = [{"role": "user", "content": "Hi"}]
TURN = "<|CHATBOT_TOKEN|>"
MARKS = [TURN, *(f"<|{side}_{part}|>" for part in ("THINKING", "RESPONSE", "ACTION") for side in ("START", "END"))]
TEMPLATE = (
    "{{ bos_token }}{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}"
    "{% for message in messages %}{{ message.role }}:{{ message.content }}"
    "{% if message.reasoning_content %}<|START_THINKING|>{{ message.reasoning_content }}<|END_THINKING|>{% endif %}"
    "{% if message.tool_calls %}<|START_ACTION|>[{% for call in message.tool_calls %}{{ call.function.name }}"
    "{% endfor %}]<|END_ACTION|>{% endif %}{% endfor %}<|CHATBOT_TOKEN|>"
)
CALL = '[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": {"number": 5, "text": "é"}}\n]'
ONE = ' "f", "parameters": {"number": 7}}\n]'
# A call that the prompt has begun goes on behind a colon.
FOLLOWS = {
    TURN: "<|START_THINKING|>", "<|START_THINKING|>": "Hm.", "Hm.": "<|END_THINKING|>",
    "<|END_THINKING|>": "<|START_RESPONSE|>", "<|START_RESPONSE|>": "I look.", "I look.": "<|END_RESPONSE|>",
    "<|END_RESPONSE|>": "<|START_ACTION|>", "<|START_ACTION|>": CALL, CALL: "<|END_ACTION|>",
    ":": ONE, ONE: "<|END_ACTION|>", "<|END_ACTION|>": "<|im_end|>",
}  # fmt: skip
CALLS = [("f", {"number": 5, "text": "é"})]
GREEDY: dict[str, Any] = {"max_tokens": 40, "temperature": 0}


@pytest.fixture(scope="module")
def served(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("command")
    worded = with_words(tiny_model(), folder / "words.gguf", MARKS, ["Hm.", "I look.", CALL, ONE], TEMPLATE)
    with Served(str(with_script(worded, folder / "script.gguf", FOLLOWS)), "--threads", "1") as served:
        yield served


def test_a_chat(served: Served) -> None:
    asked = OPENAI | GREEDY | {"messages": HELLO}
    (answer,) = served.post("/v1/chat/completions", **asked).json()["choices"]
    message = answer["message"]
    assert (message["reasoning_content"], message["content"]) == ("Hm.", "I look.")
    assert functions(message["tool_calls"]) == CALLS and answer["finish_reason"] == "tool_calls"
    deltas = [chunk["choices"][0]["delta"] for chunk in streamed(served, "/v1/chat/completions", **asked)]
    said = ["".join(one.get(name) or "" for one in deltas) for name in ("reasoning_content", "content")]
    assert said == ["Hm.", "I look."]
    assert functions([call for one in deltas for call in one.get("tool_calls", [])]) == CALLS


def test_a_message(served: Served) -> None:
    asked = ANTHROPIC | GREEDY | {"messages": HELLO, "thinking": {"type": "adaptive"}}
    whole = served.post("/v1/messages", **asked).json()
    assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use"]
    assert used(streamed(served, "/v1/messages", **asked)) == CALLS


def test_a_call_that_has_to_be_made(served: Served) -> None:
    asked = OPENAI | GREEDY | {"messages": HELLO, "tool_choice": "required"}
    (answer,) = served.post("/v1/chat/completions", **asked).json()["choices"]
    assert functions(answer["message"]["tool_calls"]) == [("f", {"number": 7})]
    assert answer["message"]["content"] is None
