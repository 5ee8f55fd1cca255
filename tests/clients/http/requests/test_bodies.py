"""Bodies in, what they ask for out; and what is wrong with them, by the field's name."""

import json
from typing import Any

import pytest
from paceline.clients.http.app import refusal
from paceline.clients.http.refused import HttpRefused, anthropic_error, openai_error
from paceline.clients.http.requests.anthropic import read_message
from paceline.clients.http.requests.asked import Asked, Chat, Ids, Text
from paceline.clients.http.requests.openai import read_chat, read_completion
from starlette.requests import Request

HI = [{"role": "user", "content": "Hi"}]
CHAT = {"messages": HI}
PROMPT = {"prompt": "Once"}
MESSAGE = {"messages": HI, "max_tokens": 5}


def test_a_bare_body_asks_for_the_defaults() -> None:
    assert read_chat(CHAT) == Asked((Chat(({"role": "user", "content": "Hi"},)),), None, {"temp": 1.0})
    assert read_completion(PROMPT) == Asked((Text("Once"),), 16, {"temp": 1.0})
    still = {"enable_thinking": False}
    assert read_message(MESSAGE) == Asked((Chat(({"role": "user", "content": "Hi"},), still),), 5, {"temp": 1.0})


@pytest.mark.parametrize(
    ("field", "value", "option", "found"),
    [
        ("temperature", 0, "temp", 0.0),
        ("temperature", None, "temp", 1.0),
        ("top_p", 0.5, "top_p", 0.5),
        ("top_p", 0, "top_p", 1e-6),
        ("top_k", 40, "top_k", 40),
        ("top_k", -1, "top_k", 0),
        ("min_p", 0.1, "min_p", 0.1),
        ("seed", 7, "seed", 7),
        ("seed", 7.0, "seed", 7),
        ("seed", -1, "seed", (1 << 63) - 1),
        ("frequency_penalty", -2, "freq_penalty", -2.0),
        ("presence_penalty", 1.5, "pres_penalty", 1.5),
        ("repetition_penalty", 1.1, "rep_penalty", 1.1),
        ("ignore_eos", True, "ignore_eos", True),
        ("logit_bias", {"5": 10, "6": -100}, "logit_bias", ((5, 10.0), (6, -100.0))),
    ],
)
@pytest.mark.parametrize(("read", "body"), [(read_chat, CHAT), (read_completion, PROMPT)])
def test_each_option(read: Any, body: dict[str, Any], field: str, value: Any, option: str, found: Any) -> None:
    assert read(body | {field: value}).options[option] == found


@pytest.mark.parametrize(
    ("more", "attribute", "found"),
    [
        ({"max_tokens": 9}, "most", 9),
        ({"max_completion_tokens": 8, "max_tokens": 9}, "most", 8),
        ({"stop": "a"}, "stop", ("a",)),
        ({"stop": ["a", "b"]}, "stop", ("a", "b")),
        ({"n": 3}, "n", 3),
        ({"stream": True}, "stream", True),
        ({"stream": True, "stream_options": {"include_usage": True}}, "usage", True),
        ({"logprobs": True}, "logprobs", 0),
        ({"logprobs": False}, "logprobs", None),
        ({"logprobs": True, "top_logprobs": 5}, "logprobs", 5),
        ({"tools": [], "response_format": {"type": "text"}, "user": "me", "nobody knows": {}}, "n", 1),
    ],
)
def test_each_field_of_a_chat(more: dict[str, Any], attribute: str, found: Any) -> None:
    assert getattr(read_chat(CHAT | more), attribute) == found


def test_prompts_of_every_kind() -> None:
    assert read_completion({"prompt": ["a", "b"]}).prompts == (Text("a"), Text("b"))
    assert read_completion({"prompt": [1, 2]}).prompts == (Ids((1, 2)),)
    assert read_completion({"prompt": [[1, 2], [3]]}).prompts == (Ids((1, 2)), Ids((3,)))
    assert read_completion(PROMPT | {"echo": True, "logprobs": None}).echo
    assert read_completion(PROMPT | {"logprobs": 0}).logprobs == 0


def test_messages_in_parts_and_roles() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {}}]
    (chat,) = read_chat(
        {"messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": parts}]}
    ).prompts
    assert chat == Chat(({"role": "system", "content": "s"}, {"role": "user", "content": "ab"}))
    (message,) = read_message(MESSAGE | {"system": parts}).prompts
    assert isinstance(message, Chat)
    assert message.messages == ({"role": "system", "content": "ab"}, {"role": "user", "content": "Hi"})


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({}, {}),
        ({"reasoning_effort": None}, {}),
        ({"reasoning_effort": "low"}, {"reasoning_effort": "low"}),
        ({"reasoning_effort": "none"}, {"reasoning_effort": "none", "enable_thinking": False}),
        (
            {"reasoning_effort": "none", "chat_template_kwargs": {"enable_thinking": True}},
            {"reasoning_effort": "none", "enable_thinking": True},
        ),
        ({"reasoning_effort": "low", "chat_template_kwargs": {"reasoning_effort": "high", "x": 1}},
         {"reasoning_effort": "high", "x": 1}),
    ],
)  # fmt: skip
def test_what_the_template_is_told(more: dict[str, Any], names: dict[str, Any]) -> None:
    (chat,) = read_chat(CHAT | more).prompts
    assert isinstance(chat, Chat)
    assert chat.names == names


def test_turns_of_one_role_are_one() -> None:
    thinking = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Hello."}]
    said = [
        ("user", "Hi."), ("user", [{"type": "text", "text": "You"}, {"type": "text", "text": "there?"}]),
        ("assistant", thinking), ("assistant", ""), ("assistant", "And you?"), ("assistant", thinking[:1]),
        ("user", "Yes."),
    ]  # fmt: skip
    body = MESSAGE | {"messages": [{"role": role, "content": content} for role, content in said]}
    (chat,) = read_message(body).prompts
    assert isinstance(chat, Chat)
    assert chat.messages == (
        {"role": "user", "content": "Hi.\nYouthere?"},
        {"role": "assistant", "content": "Hello.\nAnd you?", "reasoning_content": "Hm.\nHm."},
        {"role": "user", "content": "Yes."},
    )


def test_a_system_message_in_the_midst_is_the_users() -> None:
    said = [*HI, {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}]
    (chat,) = read_message(MESSAGE | {"messages": said}).prompts
    assert isinstance(chat, Chat)
    assert chat.messages == ({"role": "user", "content": "Hi\nBe brief."},)


@pytest.mark.parametrize("system", ["", [], [{"type": "text", "text": ""}], None])
def test_an_empty_system_is_none(system: Any) -> None:
    assert read_message(MESSAGE | {"system": system}) == read_message(MESSAGE)


def test_message_options() -> None:
    asked = read_message(
        MESSAGE | {"temperature": 0, "top_k": 3, "top_p": 0.9, "stop_sequences": ["x"], "stream": True}
    )
    assert (asked.options, asked.stop, asked.stream) == ({"temp": 0.0, "top_k": 3, "top_p": 0.9}, ("x",), True)


@pytest.mark.parametrize(
    ("prediction", "text"),
    [
        (None, ""),
        ({"type": "content", "content": "a b"}, "a b"),
        ({"type": "content", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": " b"}]}, "a b"),
    ],
)
def test_predictions(prediction: Any, text: str) -> None:
    assert read_chat(CHAT | {"prediction": prediction}).prediction == text


def test_each_answer_has_a_seed_of_its_own() -> None:
    asked = read_completion({"prompt": ["a", "b"], "n": 2, "seed": 7, "logprobs": 0})
    assert [asked.start_options(answer)["seed"] for answer in range(4)] == [7, 8, 7, 8]
    assert asked.start_options(0)["logprobs"] == 1


@pytest.mark.parametrize(
    ("read", "body", "param"),
    [
        *((read_chat, CHAT | {name: value}, name) for name, value in [
            ("tool_choice", "required"), ("response_format", 5),
            ("functions", [{}]),
            ("modalities", ["audio"]), ("audio", {}), ("reasoning_effort", "most"), ("prediction", "x"),
            ("temperature", 3), ("temperature", "1"), ("temperature", True), ("temperature", float("nan")),
            ("top_p", 2), ("top_k", 1.5), ("min_p", -1), ("n", 0), ("n", 17), ("n", True), ("seed", "x"),
            ("seed", 1 << 70),
            ("max_tokens", 0), ("max_tokens", "5"), ("max_completion_tokens", -1), ("stop", 5), ("stop", ""),
            ("stop", [1]),
            ("stop", ["x"] * 17), ("stream", 1), ("stream_options", {}), ("logprobs", 3), ("top_logprobs", 3),
            ("frequency_penalty", 3), ("presence_penalty", -3), ("repetition_penalty", 0), ("logit_bias", []),
            ("logit_bias", {"x": 1}), ("messages", []), ("messages", "Hi"), ("messages", None), ("model", 5),
            ("ignore_eos", 1),
        ]),
        (read_chat, CHAT | {"prediction": {"content": "x"}}, "prediction.type"),
        (read_chat, CHAT | {"prediction": {"type": "text", "content": "x"}}, "prediction.type"),
        (read_chat, CHAT | {"prediction": {"type": "content"}}, "prediction.content"),
        (read_chat, CHAT | {"prediction": {"type": "content", "content": [{}]}}, "prediction.content[0].type"),
        (read_chat, CHAT | {"logit_bias": {"5": "x"}}, "logit_bias.5"),
        (read_chat, CHAT | {"stream": True, "stream_options": 5}, "stream_options"),
        (read_chat, CHAT | {"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        (read_chat, {"messages": [5]}, "messages[0]"),
        (read_chat, {"messages": [{"role": "function", "content": "x"}]}, "messages[0].role"),
        (read_chat, {"messages": [{"role": "user"}]}, "messages[0].content"),
        (read_chat, {"messages": [{"role": "user", "content": [{"type": "file"}]}]}, "messages[0].content[0].type"),
        (read_chat, {"messages": [{"role": "user", "content": "", "function_call": {}}]}, "messages[0].function_call"),
        *((read_completion, PROMPT | {name: value}, name) for name, value in [
            ("prompt", None), ("prompt", 5), ("prompt", []), ("prompt", [1, "a"]), ("prompt", ["a"] * 17),
            ("suffix", 5),
            ("best_of", 2), ("logprobs", 6), ("logprobs", True), ("echo", "yes"), ("max_tokens", 0),
        ]),
        (read_completion, {"prompt": ["a"] * 5, "n": 4}, "n"),
        *((read_message, MESSAGE | {name: value}, name) for name, value in [
            ("max_tokens", None), ("max_tokens", 0), ("thinking", True),
            ("temperature", 1.5),
            ("stop_sequences", "x"), ("top_k", -1), ("messages", []), ("system", 5), ("stream", "yes"),
            ("messages", [{"role": "assistant", "content": "Well,"}]),
        ]),
        (read_message, MESSAGE | {"messages": [{"role": "developer", "content": "x"}]}, "messages[0].role"),
        (read_message, MESSAGE | {"messages": [{"role": "system", "content": "x"}], "system": "y"}, "messages"),
        (read_message, MESSAGE | {"messages": [{"role": "system", "content": [{"type": "image"}]}]},
         "messages[0].content[0].type"),
        (read_chat, [], None),
        (read_message, "x", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(read: Any, body: Any, param: str | None) -> None:
    with pytest.raises(HttpRefused) as found:
        read(body)
    assert (found.value.status, found.value.param) == (400, param)
    assert found.value.message.startswith(param or "the body")
    error = openai_error(found.value)["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert anthropic_error(found.value)["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_what_is_no_character_is_told_all_the_same(path: str) -> None:
    """A chat template may repeat a role or a text that it does not accept."""
    request = Request({"type": "http", "method": "POST", "path": path, "headers": [], "query_string": b""})
    told = refusal(request, HttpRefused(400, "messages: \ud800 é", "messages"))
    assert json.loads(bytes(told.body))["error"]["message"] == "messages: ? é"
