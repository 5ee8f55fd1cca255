"""A model that calls tools, over HTTP: what it says and what it calls is its text, taken apart."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from paceline.clients.model_text import open_chat_template, open_tokenizer

from .served import Served
from .speech.test_tool_calls import SCHEMA
from .worded import streamed, with_words

TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool.function.name }}{% if loop.last %}<tool_call>{% endif %}{% endfor %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CALLS = {name: json.dumps({"name": name, "arguments": {"text": f"é {name}"}}, ensure_ascii=False) for name in "fg"}
WHOLE = [f"<tool_call>{one}</tool_call>" for one in CALLS.values()]
WORDS = ["<tool_call>", "</tool_call>", *CALLS.values(), *WHOLE, "Hello", " \n"]
END = "<|im_end|>"
DESCRIBED = [{"name": name, "description": "One.", "parameters": SCHEMA} for name in CALLS]
OPENAI = {"tools": [{"type": "function", "function": one} for one in DESCRIBED]}
ANTHROPIC = {
    "tools": [{"name": one["name"], "description": "One.", "input_schema": one["parameters"]} for one in DESCRIBED]
}
RESPONSES = {"tools": [{"type": "function"} | one for one in DESCRIBED], "temperature": 0, "max_output_tokens": 24}
TOKENS = 24
CHATS: list[Any] = [[{"role": "user", "content": one + other}] for one in WORDS for other in WORDS]
GREEDY: dict[str, Any] = {"max_tokens": TOKENS, "temperature": 0}
Calls = list[tuple[str, Any]]


@pytest.fixture(scope="module")
def model(tiny_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It says little but the words."""
    path = tmp_path_factory.mktemp("tools") / "tools.gguf"
    return with_words(tiny_model(seed=4), path, [], WORDS, TEMPLATE, others=0.01)


@pytest.fixture(scope="module")
def served(model: Path) -> Iterator[Served]:
    with Served(str(model), "--threads", "1") as served:
        yield served


def raw(served: Served, model: Path, chat: Any) -> tuple[str, str]:
    """What the model goes on with after the same prompt, as it is, and why it ends."""
    rendered = open_chat_template(model).render(chat, **OPENAI)
    asked = {"prompt": open_tokenizer(model).encode_rendered(rendered)} | GREEDY
    choice = served.post("/v1/completions", **asked).json()["choices"][0]
    return choice["text"], choice["finish_reason"]


def apart(text: str) -> tuple[str, Calls]:
    """What it says, and what it calls: by a regular expression, which is enough for the words of this model."""
    said, calls, at = "", [], 0
    one = "|".join(map(re.escape, CALLS.values()))
    for found in re.finditer(r"<tool_call>(.*?)(</tool_call>|\Z)", text, re.DOTALL):
        for begin in (found.start(), text.rfind("<tool_call>", at, found.end(1))):
            body = text[begin : found.end(1)].removeprefix("<tool_call>")
            if re.fullmatch(rf"\s*(({one})\s*)+", body):
                said += bare(text[at:begin].rstrip(), calls)
                calls += [(name, {"text": f"é {name}"}) for name in re.findall(r'"name": "(\w)"', body)]
                at = found.end()
                break
    return said + bare(text[at:], calls), calls


def bare(text: str, calls: Calls) -> str:
    return text.lstrip() if calls else text


def functions(calls: list[dict[str, Any]]) -> Calls:
    assert all(re.fullmatch("[A-Za-z0-9]{9}", one["id"]) and one["type"] == "function" for one in calls)
    assert len({one["id"] for one in calls}) == len(calls)
    return [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in calls]


def test_a_chat(served: Served, model: Path) -> None:
    seen = set()
    for chat in CHATS:
        text, reason = raw(served, model, chat)
        said, calls = apart(text)
        asked = OPENAI | GREEDY | {"messages": chat, "logprobs": True}
        (answer,) = served.post("/v1/chat/completions", **asked).json()["choices"]
        message, likely = answer["message"], answer["logprobs"]["content"]
        assert (message["content"] or "", functions(message.get("tool_calls", []))) == (said, calls)
        assert (message["content"] is None) == (not said and bool(calls)) and ("tool_calls" in message) == bool(calls)
        assert answer["finish_reason"] == ("tool_calls" if calls and reason == "stop" else reason)
        assert "".join(one["token"] for one in likely).removesuffix(END) == text
        chunks = streamed(served, "/v1/chat/completions", **asked)
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
        parts = [call for delta in deltas for call in delta.get("tool_calls", [])]
        assert "".join(delta.get("content", "") for delta in deltas) == said
        assert functions(parts) == calls and [one["index"] for one in parts] == list(range(len(calls)))
        assert chunks[-1]["choices"][0]["finish_reason"] == answer["finish_reason"]
        seen.add((bool(said), min(len(calls), 2), reason))
    assert {(True, 2, "stop"), (True, 0, "stop"), (True, 2, "length")} <= seen


def test_a_message(served: Served, model: Path) -> None:
    for chat in CHATS:
        text, reason = raw(served, model, chat)
        said, calls = apart(text)
        asked = ANTHROPIC | GREEDY | {"messages": chat}
        whole = served.post("/v1/messages", **asked).json()
        blocks = whole["content"]
        assert "".join(block["text"] for block in blocks if block["type"] == "text") == said
        assert [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"] == calls
        assert whole["stop_reason"] == {"length": "max_tokens", "stop": "tool_use" if calls else "end_turn"}[reason]
        events = streamed(served, "/v1/messages", **asked)
        assert "".join(event["delta"].get("text", "") for event in events if "delta" in event) == said
        assert used(events) == calls
        (ending,) = (event for event in events if event["type"] == "message_delta")
        assert ending["delta"]["stop_reason"] == whole["stop_reason"]
    counted = served.post("/v1/messages/count_tokens", messages=chat, **ANTHROPIC).json()["input_tokens"]
    assert counted == whole["usage"]["input_tokens"] + whole["usage"]["cache_read_input_tokens"]


def test_a_response(served: Served, model: Path) -> None:
    for chat in CHATS:
        text, reason = raw(served, model, chat)
        said, calls = apart(text)
        asked = RESPONSES | {"input": chat}
        whole = served.post("/v1/responses", **asked).json()
        output = whole["output"]
        assert "".join(one["content"][0]["text"] for one in output if one["type"] == "message") == said
        assert [
            (one["name"], json.loads(one["arguments"])) for one in output if one["type"] == "function_call"
        ] == calls
        assert whole["status"] == {"length": "incomplete", "stop": "completed"}[reason]
        events = streamed(served, "/v1/responses", **asked)
        assert "".join(one["delta"] for one in events if one["type"] == "response.output_text.delta") == said
        done = [one["item"] for one in events if one["type"] == "response.output_item.done"]
        assert done == events[-1]["response"]["output"]
        found = [(one["name"], json.loads(one["arguments"])) for one in done if one["type"] == "function_call"]
        assert found == calls and events[-1]["type"] == f"response.{whole['status']}"


def used(events: list[dict[str, Any]]) -> Calls:
    """The calls of a stream, whose blocks come one after the other."""
    calls: Calls = []
    index, kind = -1, None
    for event in events:
        if event["type"] == "content_block_start":
            block = event["content_block"]
            assert kind is None and event["index"] == index + 1
            index, kind = event["index"], block["type"]
            if kind == "tool_use":
                assert block["input"] == {} and block["id"]
                calls.append((block["name"], None))
        elif event["type"] == "content_block_delta" and kind == "tool_use":
            calls[-1] = (calls[-1][0], json.loads(event["delta"]["partial_json"]))
        elif event["type"] == "content_block_stop":
            assert event["index"] == index
            kind = None
    assert kind is None
    return calls


def test_one_call_at_most(served: Served, model: Path) -> None:
    saved = 0
    for chat in CHATS:
        text, _ = raw(served, model, chat)
        said, calls = apart(text)
        asked = OPENAI | GREEDY | {"messages": chat, "parallel_tool_calls": False}
        whole = served.post("/v1/chat/completions", **asked).json()
        (answer,) = whole["choices"]
        message = answer["message"]
        assert functions(message.get("tool_calls", [])) == calls[:1]
        assert said.startswith(message["content"] or "")
        assert not calls or answer["finish_reason"] == "tool_calls"
        saved += len(calls) > 1 and whole["usage"]["completion_tokens"] < TOKENS
    assert saved and not served.states()


def test_a_call_that_has_to_be_made_is_made(served: Served, model: Path) -> None:
    """Whatever this model would have gone on with behind its beginning."""
    begun = '<tool_call>\n{"name":'
    schema = {"type": "object", "properties": {"text": {"enum": ["a", "b"]}}, "required": ["text"]}
    offered = [
        {"type": "function", "function": {"name": name, "parameters": schema | {"additionalProperties": False}}}
        for name in CALLS
    ]
    for chat in CHATS[::7]:
        rendered = open_chat_template(model).render(chat, **OPENAI)
        ids = open_tokenizer(model).encode_rendered(rendered + begun)
        asked: dict[str, Any] = {"messages": chat, "tools": offered, "max_tokens": 200, "temperature": 0}
        whole = served.post("/v1/chat/completions", **asked, tool_choice="required").json()
        message = whole["choices"][0]["message"]
        assert whole["usage"]["prompt_tokens"] == len(ids) and not message["content"]
        made = functions(message["tool_calls"])
        assert made and all(name in CALLS and arguments["text"] in "ab" for name, arguments in made)
        once = served.post("/v1/chat/completions", **asked, tool_choice="required", parallel_tool_calls=False).json()
        assert functions(once["choices"][0]["message"]["tool_calls"]) == made[:1]


def test_a_schema_that_no_call_can_be_held_to(served: Served) -> None:
    """Of a strict tool it is refused; of another one it is left out, as when a call may be made."""
    function = {"name": "f", "parameters": {"properties": {"a": 5}}}
    asked: dict[str, Any] = {"messages": CHATS[0], "max_tokens": 300, "temperature": 0}
    strict = {"tools": [{"type": "function", "function": function | {"strict": True}}]}
    for choice in ("required", "auto"):
        answer = served.post("/v1/chat/completions", **asked, **strict, tool_choice=choice)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, "tools") and "must be an object" in error["message"]
    lax = {"tools": [{"type": "function", "function": function}], "tool_choice": "required"}
    whole = served.post("/v1/chat/completions", **asked, **lax, parallel_tool_calls=False).json()["choices"][0]
    assert whole["finish_reason"] in ("tool_calls", "length")
    message = {"messages": CHATS[0], "tools": [{"name": "f", "strict": True, "input_schema": {"type": "strin"}}]}
    assert served.post("/v1/messages/count_tokens", **message).status_code == 200
    assert served.post("/v1/messages", **message, max_tokens=5).status_code == 400


def test_without_tools_a_call_is_text(served: Served, model: Path) -> None:
    for chat in CHATS:
        ids = open_tokenizer(model).encode_rendered(open_chat_template(model).render(chat))
        text = served.completion(prompt=ids, **GREEDY)
        for more in ({}, OPENAI | {"tool_choice": "none"}):
            answer = served.post("/v1/chat/completions", messages=chat, **more, **GREEDY).json()["choices"][0]
            assert answer["message"]["content"] == text and answer["finish_reason"] in ("stop", "length")


@pytest.mark.slow
def test_the_packages_find_the_calls(served: Served, model: Path) -> None:
    import anthropic
    import openai

    client = openai.OpenAI(base_url=f"{served.url}/v1", api_key="any", max_retries=0)
    other = anthropic.Anthropic(base_url=served.url, api_key="any", max_retries=0)
    for chat in CHATS:
        text, reason = raw(served, model, chat)
        _, calls = apart(text)
        asked: dict[str, Any] = {"model": "any", "messages": chat, **OPENAI, **GREEDY}
        whole = client.chat.completions.create(**asked).choices[0].message
        assert functions([one.model_dump() for one in whole.tool_calls or []]) == calls
        if reason == "stop":  # it raises an error of its own for an answer that was cut off
            with client.chat.completions.stream(**asked) as stream:
                message = stream.get_final_completion().choices[0].message
            assert functions([one.model_dump() for one in message.tool_calls or []]) == calls
        responses = {"model": "any", "input": chat, **RESPONSES}
        made = [client.responses.create(**responses)]
        if reason == "stop":  # as above
            with client.responses.stream(**responses) as parts:
                made.append(parts.get_final_response())
        for response in made:
            found = [one for one in response.output if one.type == "function_call"]
            assert [(one.name, json.loads(one.arguments)) for one in found] == calls
        asked = {"model": "any", "messages": chat, "extra_body": {"temperature": 0}, "max_tokens": TOKENS, **ANTHROPIC}
        with other.messages.stream(**asked) as events:
            final = events.get_final_message()
        for one in (other.messages.create(**asked), final):
            assert [(block.name, block.input) for block in one.content if block.type == "tool_use"] == calls
