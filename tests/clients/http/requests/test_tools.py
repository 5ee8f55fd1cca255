"""Requests that offer tools, and messages with calls and results, as a chat template takes them."""

import json
from typing import Any

import pytest
from paceline.clients.chat import ChatTemplate
from paceline.clients.http.chats import Rendered
from paceline.clients.http.refused import HttpRefused
from paceline.clients.http.requests.anthropic import read_message
from paceline.clients.http.requests.asked import Chat
from paceline.clients.http.requests.openai import read_chat
from paceline.clients.http.requests.tools import Tools
from paceline.clients.http.texts import NumberTokens, Texts

HI = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "weather", "description": "Of a city", "parameters": SCHEMA}
OPENAI: dict[str, Any] = {"messages": HI, "tools": [{"type": "function", "function": WEATHER | {"strict": True}}]}
ANTHROPIC: dict[str, Any] = {
    "messages": HI,
    "max_tokens": 5,
    "tools": [{"name": "weather", "description": "Of a city", "input_schema": SCHEMA, "cache_control": {}}],
}
STRICT = ANTHROPIC | {"tools": [ANTHROPIC["tools"][0] | {"strict": True}]}
CALLED = {"id": "a1b2c3d4e", "type": "function", "function": {"name": "weather", "arguments": {"city": "Rome"}}}
QUIET: dict[str, Any] = {"type": "function", "function": {"name": "now"}}


def chat(read: Any, body: dict[str, Any]) -> Chat:
    (found,) = read(body).prompts
    assert isinstance(found, Chat)
    return found


@pytest.mark.parametrize(
    ("read", "body", "strict"),
    [(read_chat, OPENAI, {"weather"}), (read_message, ANTHROPIC, set()), (read_message, STRICT, {"weather"})],
)
def test_both_apis_offer_the_same(read: Any, body: dict[str, Any], strict: set[str]) -> None:
    assert chat(read, body).tools == Tools(({"type": "function", "function": WEATHER},), strict=frozenset(strict))


@pytest.mark.parametrize(
    ("read", "body", "several"),
    [
        (read_chat, OPENAI | {"tool_choice": "auto", "parallel_tool_calls": True}, True),
        (read_chat, OPENAI | {"parallel_tool_calls": False}, False),
        (read_chat, OPENAI | {"tool_choice": "none"}, None),
        (read_chat, OPENAI | {"tools": []}, None),
        (read_chat, {"messages": HI, "tool_choice": "auto"}, None),
        (read_message, ANTHROPIC | {"tool_choice": {"type": "auto"}}, True),
        (read_message, ANTHROPIC | {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, False),
        (read_message, ANTHROPIC | {"tool_choice": {"type": "none"}}, None),
        (read_message, ANTHROPIC | {"tools": []}, None),
    ],
)
def test_what_may_be_called(read: Any, body: dict[str, Any], several: bool | None) -> None:
    tools = chat(read, body).tools
    assert (tools and tools.several) == several and not (tools and tools.must)


@pytest.mark.parametrize(
    ("read", "body", "several", "must"),
    [
        (read_chat, OPENAI | {"tool_choice": "required"}, True, ("weather", "now")),
        (read_chat, OPENAI | {"tool_choice": "required", "parallel_tool_calls": False}, False, ("weather", "now")),
        (read_chat, OPENAI | {"tool_choice": QUIET}, False, ("now",)),
        (read_message, ANTHROPIC | {"tool_choice": {"type": "any"}}, True, ("weather", "now")),
        (read_message, ANTHROPIC | {"tool_choice": {"type": "tool", "name": "now"}}, False, ("now",)),
    ],
)
def test_what_has_to_be_called(read: Any, body: dict[str, Any], several: bool, must: tuple[str, ...]) -> None:
    tools = chat(read, body | {"tools": [*body["tools"], QUIET if read is read_chat else {"name": "now"}]}).tools
    assert tools and len(tools.described) == 2 and (tools.several, tools.must) == (several, must)


def test_what_templates_want_is_there() -> None:
    bare = {"function": {"name": "now", "parameters": {"type": "object"}}}
    assert chat(read_chat, OPENAI | {"tools": [QUIET]}).tools == chat(read_chat, OPENAI | {"tools": [bare]}).tools
    tools = chat(read_chat, OPENAI | {"tools": [QUIET]}).tools
    empty = {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}
    assert tools and tools.described == ({"type": "function", "function": empty},)


def test_calls_and_results_of_a_chat() -> None:
    call = CALLED | {"function": {"name": "weather", "arguments": json.dumps({"city": "Rome"})}}
    said = {"role": "assistant", "content": None, "reasoning_content": "Hm", "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "a1b2c3d4e", "content": [{"type": "text", "text": "Sun"}]}
    plain = {"role": "assistant", "content": [{"type": "refusal", "refusal": "Sunny."}], "tool_calls": []}
    silent = [{"role": "tool", "tool_call_id": "a", "content": None}, {"role": "assistant", "content": None}]
    assert chat(read_chat, OPENAI | {"messages": [*HI, said, result, plain, *silent]}).messages == (
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "reasoning_content": "Hm", "tool_calls": [CALLED]},
        {"role": "tool", "content": "Sun", "tool_call_id": "a1b2c3d4e"},
        {"role": "assistant", "content": "Sunny."},
        {"role": "tool", "content": "", "tool_call_id": "a"},
        {"role": "assistant", "content": ""},
    )
    quiet = CALLED | {"function": {"name": "weather", "arguments": ""}}
    (_, turn) = chat(read_chat, {"messages": [*HI, {"role": "assistant", "tool_calls": [quiet]}]}).messages
    assert turn["tool_calls"][0]["function"] == {"name": "weather", "arguments": {}}


def test_calls_and_results_of_messages() -> None:
    def use(name: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": name, "name": "weather", "input": {"city": "Rome"}}

    said = [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "I look."}, use("a"), use("b")]
    results = [
        {"type": "tool_result", "tool_use_id": "a", "content": "Sun"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "Rain"}], "is_error": True},
        {"type": "tool_result", "tool_use_id": "c", "is_error": True},
        {"type": "text", "text": "And "},
        {"type": "text", "text": "now?"},
    ]
    past = [
        *HI, {"role": "assistant", "content": said[:2]}, {"role": "assistant", "content": said[2:]},
        {"role": "user", "content": results}, {"role": "user", "content": "Well?"},
    ]  # fmt: skip
    called = [CALLED | {"id": name} for name in "ab"]
    assert chat(read_message, ANTHROPIC | {"messages": past}).messages == (
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "I look.", "reasoning_content": "Hm", "tool_calls": called},
        {"role": "tool", "content": "Sun", "tool_call_id": "a"},
        {"role": "tool", "content": "Rain", "tool_call_id": "b"},
        {"role": "tool", "content": "error", "tool_call_id": "c"},
        {"role": "user", "content": "And now?\nWell?"},
    )
    between = {"role": "user", "content": [results[3], results[0]]}
    assert chat(read_message, ANTHROPIC | {"messages": [between]}).messages == (
        {"role": "user", "content": "And "},
        {"role": "tool", "content": "Sun", "tool_call_id": "a"},
    )


def after_hi(*messages: Any) -> dict[str, Any]:
    return {"messages": [*HI, *messages, *HI]}


def calling(**more: Any) -> dict[str, Any]:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}} | more
    return after_hi({"role": "assistant", "tool_calls": [call]})


@pytest.mark.parametrize(
    ("read", "body", "param"),
    [
        *((read_chat, OPENAI | {name: value}, param) for name, value, param in [
            ("tools", {}, "tools"), ("tools", [5], "tools[0]"), ("tools", [{"type": "web"}], "tools[0].type"),
            ("tools", [QUIET, {"type": "function"}], "tools[1].function"),
            ("tools", [{"type": "function", "function": {}}], "tools[0].function.name"),
            ("tools", [{"type": "function", "function": {"name": ""}}], "tools[0].function.name"),
            ("tools", [{"type": "function", "function": {"name": "a b"}}], "tools[0].function.name"),
            ("tools", [{"type": "function", "function": {"name": "f", "parameters": []}}],
             "tools[0].function.parameters"),
            ("tools", [{"type": "function", "function": {"name": "f", "description": 5}}],
             "tools[0].function.description"),
            ("tool_choice", "any", "tool_choice"), ("tool_choice", QUIET, "tool_choice"),
            ("tool_choice", {"type": "custom"}, "tool_choice.type"),
            ("tool_choice", {"type": "function"}, "tool_choice.function"),
            ("tool_choice", 5, "tool_choice"), ("parallel_tool_calls", "no", "parallel_tool_calls"),
        ]),
        (read_chat, {"messages": HI, "tool_choice": "required"}, "tool_choice"),
        *((read_chat, calling(**call), f"messages[1].tool_calls[0]{param}") for call, param in [
            ({"id": None}, ".id"), ({"type": "custom"}, ".type"), ({"function": None}, ".function"),
            ({"function": {"arguments": "{}"}}, ".function.name"),
            ({"function": {"name": "f"}}, ".function.arguments"),
            ({"function": {"name": "f", "arguments": {}}}, ".function.arguments"),
            ({"function": {"name": "f", "arguments": "[]"}}, ".function.arguments"),
            ({"function": {"name": "f", "arguments": "{"}}, ".function.arguments"),
        ]),
        (read_chat, after_hi({"role": "assistant", "tool_calls": {}}), "messages[1].tool_calls"),
        (read_chat, after_hi({"role": "tool", "content": "x"}), "messages[1].tool_call_id"),
        (read_chat, after_hi({"role": "tool", "tool_call_id": "a", "content": 5}), "messages[1].content"),
        (read_chat, after_hi({"role": "function", "name": "f", "content": "x"}), "messages[1].role"),
        *((read_message, ANTHROPIC | {name: value}, param) for name, value, param in [
            ("tools", [{"type": "web_search_20250305", "name": "web_search"}], "tools[0].type"),
            ("tools", [{"input_schema": {}}], "tools[0].name"),
            ("tools", [{"name": "f", "input_schema": 5}], "tools[0].input_schema"),
            ("tool_choice", "auto", "tool_choice"), ("tool_choice", {}, "tool_choice.type"),
            ("tool_choice", {"type": "required"}, "tool_choice.type"), ("tool_choice", {"type": 5}, "tool_choice.type"),
            ("tool_choice", {"type": "tool"}, "tool_choice.name"),
            ("tool_choice", {"type": "tool", "name": "f"}, "tool_choice"),
            ("tool_choice", {"type": "auto", "disable_parallel_tool_use": 1}, "tool_choice.disable_parallel_tool_use"),
        ]),
        *((read_message, ANTHROPIC | {"messages": [{"role": role, "content": [part]}, *HI]},
           f"messages[0].content[0].{param}") for role, part, param in [
            ("user", {"type": "tool_use"}, "type"), ("user", {"type": "tool_result"}, "tool_use_id"),
            ("user", {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "image"}]}, "content[0].type"),
            ("assistant", {"type": "tool_result"}, "type"), ("assistant", {"type": "tool_use"}, "input"),
            ("assistant", {"type": "tool_use", "input": 5}, "input"),
            ("assistant", {"type": "tool_use", "input": {}, "id": "a"}, "name"),
            ("assistant", {"type": "tool_use", "input": {}, "name": "f"}, "id"),
        ]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(read: Any, body: dict[str, Any], param: str) -> None:
    with pytest.raises(HttpRefused) as found:
        read(body)
    assert (found.value.status, found.value.param) == (400, param)


def test_a_model_whose_template_knows_no_tools_refuses_them() -> None:
    texts = Texts.numbers(100, 1000)
    with pytest.raises(HttpRefused) as found:
        texts.read(chat(read_chat, OPENAI))
    assert (found.value.status, found.value.param) == (400, "tools") and "chat template" in found.value.message
    assert texts.read(chat(read_chat, OPENAI | {"tool_choice": "none"})).chat == Rendered("Hi\n")


def test_the_template_is_given_what_is_offered() -> None:
    template = ChatTemplate("{{ tools | map(attribute='function.name') | join }}<tool_call>{{ tools | length }}")
    texts = Texts(NumberTokens(100), template, 100, 1000)
    given = texts.read(chat(read_chat, OPENAI))
    assert given.chat == Rendered("weather<tool_call>1", chat(read_chat, OPENAI).tools)


@pytest.mark.parametrize(
    ("source", "named", "text"),
    [
        ("{{ tools | length }}<tool_call>", False, '2<tool_call><tool_call>\n{"name":'),
        ("{{ tools | length }}<tool_call>", True, '2<tool_call><tool_call>\n{"name": "now", "arguments":'),
        ("{{ tools | length }}<tool_call></think>{{ '<think>\n' }}", True,
         '2<tool_call></think><think>\n\n</think>\n\n<tool_call>\n{"name": "now", "arguments":'),
    ],
)  # fmt: skip
def test_a_call_that_has_to_be_made_is_begun_by_the_prompt(source: str, named: bool, text: str) -> None:
    body = OPENAI | {"tools": [*OPENAI["tools"], QUIET], "tool_choice": QUIET if named else "required"}
    given = Texts(NumberTokens(100), ChatTemplate(source), 100, 1000).read(chat(read_chat, body))
    assert given.chat and given.chat.text == text and given.ids == list(text.encode())
    assert given.chat.begun and text.endswith(given.chat.begun)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, {}),
        ({"output_config": {}}, {}),
        ({"output_config": {"effort": "high"}}, {"reasoning_effort": "high"}),
    ],
)
def test_the_effort_of_a_message_goes_to_the_template(given: dict[str, Any], names: dict[str, Any]) -> None:
    assert chat(read_message, ANTHROPIC | given).names == {"enable_thinking": False} | names
    for wrong in ({"effort": "utmost"}, {"effort": 5}, {"format": {"type": "json_schema"}}, 5):
        with pytest.raises(HttpRefused, match="output_config"):
            read_message(ANTHROPIC | {"output_config": wrong})
