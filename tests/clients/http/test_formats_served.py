"""Answers whose format was asked for, over each API, of models that say anything: the format holds all the same."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from paceline.clients.harmony import MARKS

from .served import Served
from .test_harmony_served import TEMPLATE as HARMONY
from .test_harmony_served import WORDS as CHANNELS
from .test_tools_served import TEMPLATE as TOOLS
from .worded import streamed, with_words

HELLO = [{"role": "user", "content": "Hi"}]
SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": ["x", "é\n"]}, "b": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
ASKED: dict[str, Any] = {"max_tokens": 200, "temperature": 1}
CHAT = {"response_format": {"type": "json_schema", "json_schema": {"name": "ab", "strict": True, "schema": SCHEMA}}}
SEEDS = range(4)


def is_ab(text: str) -> bool:
    found = json.loads(text)
    return (
        list(found) == ["a", "b"]
        and found["a"] in ("x", "é\n")
        and len(found["b"]) <= 2
        and all(type(one) is bool for one in found["b"])
    )


@pytest.fixture(scope="module")
def served(tiny_model: Callable[..., Path]) -> Iterator[Served]:
    with Served(str(tiny_model(chat="thinking")), "--threads", "1") as served:
        yield served


@pytest.fixture(scope="module")
def ends_thoughts(served: Served) -> dict[str, Any]:
    (mark,) = served.post("/tokenize", content="</think>").json()["tokens"]
    return {"logit_bias": {str(mark): 5}}


def test_a_chat_thinks_first(served: Served, ends_thoughts: dict[str, Any]) -> None:
    thoughts = 0
    for seed in SEEDS:
        more = ASKED | CHAT | ends_thoughts | {"seed": seed}
        choice = served.post("/v1/chat/completions", messages=HELLO, **more).json()["choices"][0]
        assert choice["finish_reason"] == "stop" and is_ab(choice["message"]["content"])
        thoughts += bool(choice["message"].get("reasoning_content"))
        deltas = [
            one["choices"][0]["delta"] for one in streamed(served, "/v1/chat/completions", messages=HELLO, **more)
        ]
        assert "".join(delta.get("content", "") for delta in deltas) == choice["message"]["content"]
    assert thoughts


def test_several_answers_at_once_are_those_of_each_alone(served: Served, ends_thoughts: dict[str, Any]) -> None:
    more = ASKED | CHAT | ends_thoughts | {"messages": HELLO}
    together = served.post("/v1/chat/completions", **more, n=4, seed=0).json()["choices"]
    alone = [served.post("/v1/chat/completions", **more, seed=seed).json()["choices"][0] for seed in SEEDS]
    assert [one["message"] for one in together] == [one["message"] for one in alone]


def test_a_response(served: Served, ends_thoughts: dict[str, Any]) -> None:
    asked = {"input": HELLO, "max_output_tokens": 200, "temperature": 1, "seed": 1} | ends_thoughts
    form = {"format": {"type": "json_schema", "name": "ab", "schema": SCHEMA}}
    whole = served.post("/v1/responses", **asked, text=form).json()
    assert is_ab(whole["output"][-1]["content"][0]["text"]) and whole["text"] == form
    last = streamed(served, "/v1/responses", **asked, text=form)[-1]["response"]
    assert [item["content"] for item in last["output"]] == [item["content"] for item in whole["output"]]


@pytest.mark.parametrize("field", ["output_config", "output_format"])
def test_a_message(served: Served, field: str) -> None:
    """Without `thinking`: the template closes the thought at once. This API knows no seed, and chance may run out of
    tokens in white space."""
    form: dict[str, Any] = {"type": "json_schema", "schema": SCHEMA}
    more = ASKED | {"temperature": 0, field: {"format": form} if field == "output_config" else form}
    whole = served.post("/v1/messages", messages=HELLO, **more).json()
    texts = [part["text"] for part in whole["content"] if part["type"] == "text"]
    assert is_ab("".join(texts)) and whole["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ({"structured_outputs": {"regex": "[ab]{3}/[0-9]"}}, "[ab]{3}/[0-9]"),
        ({"structured_outputs": {"choice": ["yes.", "no (or\nso)", "[-]"]}}, r"yes\.|no \(or\nso\)|\[-\]"),
        ({"structured_outputs": {"json": {"enum": ["a b", 5]}}}, '"a b"|5'),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": 7}}}}, "7"),
        ({"structured_outputs": {"json_object": False}}, "(?s:.*)"),
    ],
)
def test_a_completion(served: Served, form: dict[str, Any], pattern: str) -> None:
    for seed in SEEDS:
        choice = served.post("/v1/completions", prompt="Hi", seed=seed, **ASKED, **form).json()["choices"][0]
        assert re.fullmatch(pattern, choice["text"]) and (choice["finish_reason"] == "stop" or pattern == "(?s:.*)")


def test_an_object_of_any_kind(served: Served) -> None:
    """It may be cut off; what came is the beginning of one."""
    more = ASKED | {"response_format": {"type": "json_object"}, "chat_template_kwargs": {"enable_thinking": False}}
    choice = served.post("/v1/chat/completions", messages=HELLO, seed=3, **more).json()["choices"][0]
    text = choice["message"]["content"]
    assert text.startswith("{")
    if choice["finish_reason"] == "stop":
        assert isinstance(json.loads(text), dict)


def test_the_log_probabilities_are_the_models_own(served: Served) -> None:
    more = ASKED | {"structured_outputs": {"choice": ["zzz"]}, "logprobs": 3}
    told = served.post("/v1/completions", prompt="Hi", **more).json()["choices"][0]["logprobs"]
    assert told["tokens"] == ["z", "z", "z"] and max(told["token_logprobs"]) < -0.1


def wrong_format(schema: dict[str, Any], strict: bool) -> dict[str, Any]:
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": strict, "schema": schema}}
    }


@pytest.mark.parametrize(
    ("more", "param", "words"),
    [
        (wrong_format({"type": "strin"}, False), "response_format.json_schema.schema", "Invalid type: strin"),
        (wrong_format({"not": {}}, True), "response_format.json_schema.schema", 'Unimplemented keys: ["not"]'),
        ({"structured_outputs": {"regex": "("}}, "structured_outputs.regex", "unclosed group"),
        (CHAT | {"ignore_eos": True}, "response_format.json_schema.schema", "no token ends this request"),
    ],
)
def test_a_format_that_no_answer_can_be_held_to(served: Served, more: dict[str, Any], param: str, words: str) -> None:
    answer = served.post("/v1/chat/completions", messages=HELLO, **more)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, param, "invalid_value")
    assert error["message"].startswith(f"{param}: ") and words in error["message"] and "\n" not in error["message"]


def test_what_is_not_strict_leaves_out_what_it_cannot_hold(served: Served) -> None:
    form = wrong_format({"type": "integer", "maximum": 9, "minimum": 0, "not": {"const": 5}}, False)
    more = ASKED | form | {"chat_template_kwargs": {"enable_thinking": False}}
    assert (
        served.post("/v1/chat/completions", messages=HELLO, **more).json()["choices"][0]["message"]["content"].isdigit()
    )


def test_a_thousand_properties_may_be_left_out(served: Served) -> None:
    """More than the library's own bound of what may come at one place; and then a bound all the same."""
    more = ASKED | {"chat_template_kwargs": {"enable_thinking": False}, "messages": HELLO, "temperature": 0}
    for count, status in ((1000, 200), (5000, 400)):
        schema = {"type": "object", "properties": {f"p{number}": {"type": "null"} for number in range(count)}}
        answer = served.post("/v1/chat/completions", **more, **wrong_format(schema, False))
        assert answer.status_code == status, answer.text
    assert answer.json()["error"]["code"] == "grammar_failed" and "Current row has" in answer.json()["error"]["message"]


def test_what_a_pattern_cannot_say_here_is_left_out_unless_it_is_strict(served: Served) -> None:
    """As zod writes an e-mail address."""
    schema = {
        "type": "object",
        "properties": {
            "mail": {"type": "string", "pattern": r"^(?!\.)[^@]+@.+$", "maxLength": 9},
            "more": {"enum": None},
        },
        "required": ["mail"],
        "additionalProperties": False,
    }
    more = ASKED | {"chat_template_kwargs": {"enable_thinking": False}, "messages": HELLO}
    lax = served.post("/v1/chat/completions", **more, **wrong_format(schema, False)).json()["choices"][0]
    assert lax["finish_reason"] == "length" or isinstance(json.loads(lax["message"]["content"])["mail"], str)
    answer = served.post("/v1/chat/completions", **more, **wrong_format(schema, True))
    assert answer.status_code == 400
    form = {"response_format": {"type": "json_object", "schema": {"const": 5}}}
    assert served.post("/v1/chat/completions", **more, **form).json()["choices"][0]["message"]["content"] == "5"


def test_harmony(tiny_model: Callable[..., Path], tmp_path: Path) -> None:
    path = with_words(tiny_model(), tmp_path / "harmony.gguf", MARKS, CHANNELS, HARMONY)
    thoughts = 0
    with Served(str(path), "--threads", "1") as served:
        ends = {str(served.post("/tokenize", content=mark).json()["tokens"][-1]): 5 for mark in ("<|end|>",)}
        for seed in range(6):
            more = ASKED | CHAT | {"logit_bias": ends, "seed": seed}
            choice = served.post("/v1/chat/completions", messages=HELLO, **more).json()["choices"][0]
            if choice["finish_reason"] == "length":
                continue
            assert is_ab(choice["message"]["content"])
            thoughts += bool(choice["message"].get("reasoning_content"))
    assert thoughts


def test_a_model_with_tools_may_call_one_instead(tiny_model: Callable[..., Path], tmp_path: Path) -> None:
    words = ["<tool_call>", "</tool_call>"]
    path = with_words(tiny_model(), tmp_path / "tools.gguf", words, [], TOOLS)
    tools = {"tools": [{"type": "function", "function": {"name": "f"}}]}
    with Served(str(path), "--threads", "1") as served:
        begin = served.post("/tokenize", content=words[0]).json()["tokens"][-1]
        for bias in (-100, 100):
            more = ASKED | CHAT | tools | {"logit_bias": {str(begin): bias}, "seed": 5}
            choice = served.post("/v1/chat/completions", messages=HELLO, **more).json()["choices"][0]
            if bias < 0:
                assert choice["finish_reason"] == "stop" and is_ab(choice["message"]["content"])
            else:
                assert choice["message"]["content"].startswith("<tool_call>")  # none that could be read
