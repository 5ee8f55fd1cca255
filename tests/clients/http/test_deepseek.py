"""Chats of DeepSeek: prompts by templates of its two kinds, and answers that think and call, token by token."""

import json
from typing import Any

import pytest
from paceline.clients.chat import ChatTemplate
from paceline.clients.http.chats import Chats, Rendered
from paceline.clients.http.requests.asked import Chat
from paceline.clients.http.requests.tools import Tools

from .grammars.held import Words, fits
from .speech.test_block_calls import as_block, as_fenced
from .speech.test_call_splitter import told
from .speech.test_tool_calls import offered
from .test_template_needs import HI, call, called, result

BEGIN, END, EOS = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<eos>"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}
OUTPUT = "{% if message.role == 'tool' %}[{{ message.content }}]{% endif %}{% endfor %}"
TOOLS = "{% for tool in tools or [] %}({{ tool.function.name }}){% endfor %}"
USER = "{% for message in messages %}{% if message.role == 'user' %}<user>{{ message.content }}{% endif %}"
R1 = (
    f"{TOOLS}{USER}{{% if message.role == 'assistant' and message['content'] is none %}}<assistant>{BEGIN}"
    "{% for tool in message['tool_calls'] %}{{ '<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + "
    "tool['function']['name'] + '\n```json\n' + tool['function']['arguments'] + '\n```<｜tool▁call▁end｜>' }}"
    f"{{% endfor %}}{END}{EOS}{{% elif message.role == 'assistant' %}}<assistant>"
    f"{{{{ message['content'].split('</think>')[-1] }}}}{EOS}{{% endif %}}{OUTPUT}"
    "{% if add_generation_prompt and messages[-1].role != 'tool' %}<assistant><think>\n{% endif %}"
)
V31 = (
    "{% if not thinking is defined %}{% set thinking = false %}{% endif %}"
    f"{TOOLS}{USER}{{% if message.role == 'assistant' %}}<assistant></think>{{{{ message['content'] or '' }}}}"
    f"{{% if message['tool_calls'] %}}{BEGIN}{{% for tool in message['tool_calls'] %}}"
    "{{ '<｜tool▁call▁begin｜>' + tool['function']['name'] + '<｜tool▁sep｜>' + tool['function']['arguments'] + "
    f"'<｜tool▁call▁end｜>' }}}}{{% endfor %}}{END}{{% endif %}}{EOS}{{% endif %}}{OUTPUT}"
    "{% if add_generation_prompt and messages[-1].role != 'tool' %}<assistant>"
    "{{ '<think>' if thinking else '</think>' }}{% endif %}"
)
each_template = pytest.mark.parametrize(("source", "write"), [(R1, as_fenced), (V31, as_block)], ids=["R1", "V3.1"])


def chats(source: str) -> Chats:
    return Chats(ChatTemplate(source), Words())


def rendered(source: str, messages: list[Any], tools: Tools | None = None, **names: Any) -> Rendered:
    return chats(source).render(Chat(tuple(messages), names, tools))


def spoken(source: str, prompt: Rendered, answer: str) -> tuple[str, list[str]]:
    """What becomes of an answer to this prompt, whose tokens come one by one: thoughts, and the rest."""
    voice = chats(source).voice(prompt, Words().detokenizer(), ())
    parts = [part for token in Words().encode(answer) for part in voice.push(token, None)]
    parts += voice.finish()
    return "".join(one.text for one in parts if one.thought), told([one for one in parts if not one.thought])


@pytest.mark.parametrize(
    ("names", "end"),
    [
        ({}, "</think>"),
        ({"thinking": True}, "<think>"),
        ({"enable_thinking": True}, "<think>"),
        ({"enable_thinking": False}, "</think>"),
        ({"reasoning_effort": "low"}, "<think>"),
        ({"reasoning_effort": "none", "enable_thinking": False}, "</think>"),
        ({"reasoning_effort": "low", "thinking": False}, "</think>"),
    ],
)
def test_the_later_one_thinks_if_it_is_told_to(names: dict[str, Any], end: str) -> None:
    assert rendered(V31, [HI], **names).text == f"<user>Hi<assistant>{end}"


def test_other_templates_know_nothing_of_efforts() -> None:
    source = "{{ enable_thinking is defined }} {{ thinking }}"
    assert rendered(source, [HI], reasoning_effort="low").text == "False "


@each_template
def test_calls_of_before(source: str, write: Any) -> None:
    chat = [HI, called(call("a"), call("b")), result("a", "5"), result("b", "6")]
    before = "<assistant>" if source == R1 else "<assistant></think>"
    block = f"{BEGIN}{write('f', {'x': 'é'}) * 2}{END}{EOS}"
    assert rendered(source, chat, offered("f")).text == f"(f)<user>Hi{before}{block}[5][6]"


@each_template
def test_thoughts_and_calls(source: str, write: Any) -> None:
    prompt = rendered(source, [HI], offered("f", "g"), enable_thinking=True)
    block = f"{BEGIN}{write('f', {'text': 'a'})}\n{write('g', {})}{END}"
    assert spoken(source, prompt, f"Hm.\n</think>\n\nI look.\n{block}") == ("Hm.", ["I look.", "→f", "→g"])
    assert spoken(source, prompt, f"Hm.</think>{block}") == ("Hm.", ["→f", "→g"])


@each_template
@pytest.mark.parametrize("must", [("f",), ("f", "g")])
def test_a_call_that_has_to_be_made_is_begun(source: str, write: Any, must: tuple[str, ...]) -> None:
    prompt = rendered(source, [HI], Tools(offered("f", "g", schema=SCHEMA).described, len(must) > 1, must))
    whole = f"{BEGIN}{write('f', {'text': 'a'})}{END}"
    assert prompt.text.endswith(f"</think>{prompt.begun}" if source == V31 else f"</think>\n\n{prompt.begun}")
    assert whole.startswith(prompt.begun)
    rest, grammar = whole.removeprefix(prompt.begun), chats(source).grammar(prompt, None, False)
    assert fits(grammar, rest) and not fits(grammar, rest.replace(json.dumps("a"), "5"))
    assert spoken(source, prompt, rest) == ("", ["→f"])
