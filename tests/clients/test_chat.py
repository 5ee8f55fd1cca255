"""Chat templates against the golden conversations, and the environment that templates may count on."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from paceline.clients.chat import ChatRefused, ChatTemplate, NoTemplate
from paceline.clients.model_text import open_chat_template

GOLDEN = json.loads((Path(__file__).parent / "golden.json").read_text())
HELLO = [{"role": "user", "content": "Hello!"}]


@pytest.fixture(scope="module")
def demo(demo_model: Path) -> ChatTemplate:
    return open_chat_template(demo_model)


@pytest.mark.parametrize("case", GOLDEN["conversations"])
def test_the_golden_conversations(demo: ChatTemplate, case: dict[str, Any]) -> None:
    assert demo.render(case["messages"]) == case["prompt"]
    assert demo.render(case["messages"], add_generation_prompt=False) == case["closed"]


def test_blocks_are_trimmed() -> None:
    source = "{% for m in messages %}\n    {% if true %}\n{{ m.content }}\n    {% endif %}\n{% endfor %}\nend"
    assert ChatTemplate(source).render(HELLO) == "Hello!\nend"


TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}


def test_the_names_that_templates_use() -> None:
    def now() -> datetime:
        return datetime(2024, 11, 21)

    source = "{{ bos_token }}{{ strftime_now('%d %b %Y') }}{{ {'a': '<é>'} | tojson }}"
    source += "{{ tools is none }}{{ mood }}{{ eos_token }}"
    assert ChatTemplate(source, TOKENS, now).render(HELLO, mood="!") == '<s>21 Nov 2024{"a": "<é>"}True!</s>'
    loop = "{% for n in range(9) %}{% if n == 2 %}{% break %}{% endif %}{{ n }}{% endfor %}"
    assert ChatTemplate(loop).render(HELLO) == "01"


def test_what_the_model_said_may_be_marked() -> None:
    source = "{% set who = 'me' %}{% for m in messages %}\n{% generation %}\n{% set what = m.content %}\n"
    source += "{{ who }}{{ loop.index }}{{ what }}\n{% endgeneration %}\n{% endfor %}{{ what is defined }}"
    assert ChatTemplate(source).render(HELLO * 2) == "me1Hello!\nme2Hello!\nFalse"
    with pytest.raises(ValueError, match=r"^its chat template is broken: .*endgeneration"):
        ChatTemplate("{% generation %}x")


def test_what_filters_give_is_written_as_a_list() -> None:
    source = "{{ messages | map(attribute='content') | tojson }}{{ messages | map('upper') | list | length }}"
    assert ChatTemplate(source).render(HELLO) == '["Hello!"]1'


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ [nothing] | tojson }}", "Undefined is no JSON"),
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[0].content.nothing.more }}", "nothing"),
        ("{{ messages[7].content }}", "no element 7|has no"),
        ("{{ 1 / 0 }}", "division by zero"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "not safely callable|unsafe"),
    ],
)
def test_a_template_may_refuse_and_may_not_break_out(source: str, reason: str) -> None:
    with pytest.raises(ChatRefused, match=f"^the chat template does not accept these messages: .*({reason})"):
        ChatTemplate(source).render(HELLO)


@pytest.mark.parametrize(
    "source", ["{% for %}", "{% for a in b %}" * 25 + "{% endfor %}" * 25, "{{" + "(" * 9999 + "1" + ")" * 9999 + "}}"]
)
def test_a_broken_template_is_named(source: str) -> None:
    with pytest.raises(ValueError, match=r"^its chat template is broken: .+"):
        ChatTemplate(source)


def test_a_model_without_a_template_is_named(bare_model: Path) -> None:
    with pytest.raises(NoTemplate, match=r"bare\.gguf has no chat template, expected the key"):
        open_chat_template(bare_model)


def test_what_a_message_does_not_say_is_not_there() -> None:
    source = "{% for m in messages %}{{ m.name is defined }} {{ m.content is none }} {% endfor %}"
    messages: Any = [{"role": "user", "name": None, "content": None}, {"role": "user", "name": "x", "content": "y"}]
    assert ChatTemplate(source).render(messages) == "False True True False "
    broken: Any = ["no mapping"]
    with pytest.raises(ChatRefused, match="does not accept these messages"):
        ChatTemplate(source).render(broken)
