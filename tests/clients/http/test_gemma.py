"""Chats of Gemma 4: prompts by templates of its kind, and answers that think and call, token by token."""

import json
from typing import Any

import pytest
from paceline.clients.chat import ChatTemplate
from paceline.clients.http.chats import Chats, Rendered
from paceline.clients.http.requests.asked import Chat
from paceline.clients.http.requests.tools import Tools
from paceline.clients.http.speech.cutter import Delta

from .gemma_templates import FIRST, LATER
from .grammars.held import Words, fits
from .speech.test_tool_calls import offered
from .test_template_needs import HI, called, result

USER = "<|turn>user\nHi<turn|>\n"
TOOL = "<|turn>system\n<|tool>declaration:f<tool|><turn|>\n"
STILL = "<|turn>model\n<|channel>thought\n<channel|>"
ROME = {"city": 'R"o', "days": 3, "more": [True, {"b": None, "a": 1.5}]}
CALLED = '<|tool_call>call:f{city:<|"|>R"o<|"|>,days:3,more:[true,{a:1.5,b:None}]}<tool_call|>'
RESULT = '<|tool_response>response:f{value:<|"|>20<|"|>}<tool_response|>'
YES = {"role": "assistant", "content": "Yes."}
each_template = pytest.mark.parametrize("source", [LATER, FIRST], ids=["later", "first"])


def chats(source: str) -> Chats:
    return Chats(ChatTemplate(source, {"bos_token": "<bos>"}), Words())


def rendered(source: str, messages: list[Any], tools: Tools | None = None, **names: Any) -> Rendered:
    return chats(source).render(Chat(tuple(messages), names, tools))


def text(source: str, messages: list[Any], tools: Tools | None = None, **names: Any) -> str:
    return rendered(source, messages, tools, **names).text


def a_call(name: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "f", "arguments": ROME}}


@each_template
def test_it_thinks_if_it_is_told_to(source: str) -> None:
    still, thinking = f"<bos>{USER}{STILL}", f"<bos><|turn>system\n<|think|>\n<turn|>\n{USER}<|turn>model\n"
    assert text(source, [HI]) == still == text(source, [HI], enable_thinking=False)
    assert text(source, [HI], enable_thinking=True) == thinking == text(source, [HI], reasoning_effort="low")
    assert text(source, [HI], reasoning_effort="none") == still
    assert text(source, [HI], reasoning_effort="high", enable_thinking=False) == still


@each_template
@pytest.mark.parametrize(
    ("messages", "prompt"),
    [
        ([called(a_call("a")), result("a", "20")], f"<|turn>model\n{CALLED}{RESULT}"),
        ([called(a_call("a"), reasoning_content="Hm."), result("a", "20")],
         f"<|turn>model\n<|channel>thought\nHm.\n<channel|>{CALLED}{RESULT}"),
        ([called(a_call("a"), a_call("b")), result("a", "20"), result("b", "20")],
         f"<|turn>model\n{CALLED * 2}{RESULT * 2}"),
        ([called(a_call("a")), result("a", "20"), called(a_call("b")), result("b", "20")],
         f"<|turn>model\n{CALLED}{RESULT}{CALLED}{RESULT}"),
        ([called(a_call("a")), result("a", "20"), YES, HI],
         f"<|turn>model\n{CALLED}{RESULT}Yes.<turn|>\n{USER}{STILL}"),
        ([called(a_call("a"), content="I look."), result("a", "20")],
         f"<|turn>model\n{CALLED}{RESULT}I look.<turn|>\n<|turn>model\n"),
    ],
)  # fmt: skip
def test_calls_and_results_of_before(source: str, messages: list[Any], prompt: str) -> None:
    assert text(source, [HI, *messages], offered("f")) == f"<bos>{TOOL}{USER}{prompt}"


def test_a_turn_begins_before_the_thought_that_is_left_out() -> None:
    source = LATER + "{% if told.last == 'results' %}<|channel>thought\n<channel|>{% endif %}"  # as the first ones did
    chat = [HI, called(a_call("a"), content="I look."), result("a", "20")]
    assert text(source, chat).endswith(f"I look.<turn|>\n{STILL}")


def test_results_of_calls_that_are_not_there_are_unknown() -> None:
    chat = [HI, called(a_call("a")), result("x", "20"), called(a_call("b"))]
    assert "<|tool_response>response:unknown{value" in text(FIRST, chat)


@pytest.mark.parametrize(
    ("must", "call"), [(("f",), "<|tool_call>call:f{"), (("f", "g"), "<|tool_call>call:")], ids=["one", "any"]
)
def test_a_call_that_has_to_be_made_is_begun(must: tuple[str, ...], call: str) -> None:
    tools = Tools(offered("f", "g").described, len(must) > 1, must)
    for names in ({}, {"enable_thinking": True}):
        prompt = rendered(LATER, [HI], tools, **names)
        assert prompt.text == text(LATER, [HI], offered("f", "g"), **names) + call and prompt.begun == call
        rest = ("" if len(must) == 1 else "f{") + 'text:<|"|>a<|"|>}<tool_call|>'
        grammar = chats(LATER).grammar(prompt, None, False)
        assert fits(grammar, rest) and not fits(grammar, rest.replace('<|"|>', ""))
        assert spoken(prompt, rest) == [("call", ("f", {"text": "a"}))]


def spoken(prompt: Rendered, answer: str) -> list[tuple[str, Any]]:
    """What becomes of an answer to this prompt, whose tokens come one by one."""
    voice = chats(LATER).voice(prompt, Words().detokenizer(), ())
    parts = [part for token in Words().encode(answer) for part in voice.push(token, None)]
    found: list[tuple[str, Any]] = []
    for part in [*parts, *voice.finish()]:
        kind, what = told(part)
        if found and found[-1][0] == kind != "call":
            what = found.pop()[1] + what
        found.append((kind, what))
    return found


def told(part: Delta) -> tuple[str, Any]:
    if part.call:
        return "call", (part.call.name, json.loads(part.call.arguments))
    return "thought" if part.thought else "said", part.text


def test_an_answer_thinks_speaks_and_calls() -> None:
    prompt = rendered(LATER, [HI], offered("f", "g"), enable_thinking=True)
    answer = f"<|channel>thought\nHm.\n<channel|>I look.\n{CALLED}<|tool_call>call:g{{}}<tool_call|>"
    calls = [("call", ("f", ROME)), ("call", ("g", {}))]
    assert spoken(prompt, answer) == [("thought", "Hm."), ("said", "I look."), *calls]
    assert spoken(prompt, f"{answer}<|channel>thought\n<channel|><channel|>") == [
        ("thought", "Hm."), ("said", "I look."), *calls,
    ]  # fmt: skip
    cut = '<|tool_call>call:f{city:<|"|>Ro'
    assert spoken(prompt, f"Yes. {cut}") == [("said", f"Yes. {cut}")]


def test_strict_tools_hold_what_it_calls_behind_a_thought() -> None:
    described = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": False}
    tools = Tools(offered("f", schema=described).described, strict=frozenset({"f"}))
    grammar = chats(LATER).grammar(rendered(LATER, [HI], tools, enable_thinking=True), None, False)
    thought, call = "<|channel>thought\nHm.\n<channel|>", '<|tool_call>call:f{text:<|"|>a<|"|>}<tool_call|>'
    for good in (f"{thought}Yes.", f"{thought}I look. {call}", call, f"{call}{call}"):
        assert fits(grammar, good), good
    for bad in (call.replace("text", "other"), call.replace("call:f", "call:g"), call.replace('<|"|>', "")):
        assert not fits(grammar, f"{thought}{bad}"), bad
