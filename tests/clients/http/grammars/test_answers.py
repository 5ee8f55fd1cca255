"""What an answer must match, with all that a model may write before it: tried token by token, as the daemon does."""

import json

import pytest
from paceline.clients.http.requests.tools import Tools
from paceline.clients.http.speech.call_marks import call_marks_of
from paceline.clients.thoughts import Marks
from paceline.protocol import Grammar, Refusal

from .held import SPECIAL, fits, held

THINK, SEED = Marks("<think>", "</think>"), Marks("<seed:think>", "</seed:think>")
CHANNEL = Marks("<|channel>thought", "<channel|>", ("<|channel>", "<channel|>"))
NUMBER = Grammar.json({"type": "integer"})
TOOLS = Tools(
    tuple(
        {"type": "function", "function": {"name": name, "description": "", "parameters": {"type": "object"}}}
        for name in ("f", "g")
    )
)


def test_without_marks_it_is_what_was_asked_for() -> None:
    assert held().grammar(NUMBER, "<user>", None, False) is NUMBER
    assert held(THINK).grammar(NUMBER, "x<think>\n\n</think>\n\n", None, False) is NUMBER
    assert held(CHANNEL).grammar(NUMBER, "x<|channel>thought\n<channel|>", None, False) is NUMBER
    assert held(calls=call_marks_of("tools <tool_call>")).grammar(NUMBER, "x", None, False) is NUMBER


@pytest.mark.parametrize("marks", [THINK, SEED, CHANNEL], ids=["tokens", "texts", "both"])
def test_behind_a_thought_that_the_prompt_has_begun(marks: Marks) -> None:
    grammar = held(marks).grammar(NUMBER, f"x{marks.begin}\n", None, False)
    assert fits(grammar, f'Hm: {{"a"}} é.\n{marks.end}\n\n12')
    assert fits(grammar, f"{marks.end}12")
    assert not fits(grammar, "12")
    assert not fits(grammar, f"Hm.{marks.end}\n\nno")
    assert not fits(grammar, f"Hm.{marks.end}12{marks.end}")


@pytest.mark.parametrize("marks", [THINK, SEED, CHANNEL], ids=["tokens", "texts", "both"])
def test_a_model_may_think_by_itself_or_not(marks: Marks) -> None:
    grammar = held(marks).grammar(NUMBER, "<assistant>\n", None, False)
    assert fits(grammar, "12")
    assert fits(grammar, f"{marks.begin}\nHm. 5\n{marks.end}\n\n12")
    assert fits(grammar, f"\n{marks.begin}Hm.{marks.end}12")  # as GLM writes it
    assert not fits(grammar, f"{marks.begin}12")
    assert not fits(grammar, "Hm.")


def test_a_mark_that_is_spelled_is_a_part_of_the_thought() -> None:
    grammar = held(THINK).grammar(NUMBER, "<think>", None, False)
    spelled = [*b"a</think>no", 256 + SPECIAL.index("</think>"), *b"12"]
    assert fits(grammar, "", spelled)


@pytest.mark.parametrize(
    ("template", "call"),
    [
        ("tools <tool_call>", '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'),
        (
            "tools <tool_call><function=",
            "<tool_call>\n<function=f>\n</function>\n</tool_call>",
        ),
        ("tools <seed:tool_call>", '<seed:tool_call>{"name": "f", "arguments": {}}</seed:tool_call>'),
        ("tools [TOOL_CALLS]", '[TOOL_CALLS][{"name": "f", "arguments": {}}]'),
        ("tools <TOOLCALL>", '<TOOLCALL>[{"name": "f", "arguments": {}}]</TOOLCALL>'),
        (
            'tools {"name": function name, "parameters": dictionary}',
            '{"name": "f", "parameters": {"a": [1]}}',
        ),
        ('tools {"name": function name, "parameters": dictionary}', '<|python_tag|>{"name": "f", "parameters": {}}'),
    ],
)
@pytest.mark.parametrize("thoughts", [None, THINK])
def test_a_call_may_stand_in_its_place(template: str, call: str, thoughts: Marks | None) -> None:
    grammar = held(thoughts, call_marks_of(template)).grammar(NUMBER, "<assistant>", TOOLS, False)
    before = "<think>Hm.</think>\n\n" if thoughts else ""
    assert fits(grammar, f"{before}{call}")
    assert fits(grammar, f"{before}12")
    assert not fits(grammar, f"{before}Well")
    assert not fits(grammar, f'{before}{{"name": "unknown", "parameters": {{}}}}')


FINAL = "<|channel|>final<|message|>"
REMARK = "<|channel|>commentary<|message|>I will.<|end|><|start|>assistant"
HM = "<|channel|>analysis<|message|>Hm: 5.<|end|><|start|>assistant"


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        (f"{FINAL}12", True),
        (f"{HM}{FINAL}12", True),
        (f"{HM}{HM}{FINAL}12", True),
        (f"{HM}<|channel|>commentary<|message|>I will.<|end|><|start|>assistant{FINAL}12", False),
        (f"{HM}<|channel|>final <|constrain|>json<|message|>12", True),
        (f"{HM}<|channel|>final json<|message|>12", True),
        (f"{HM}{FINAL}no", False),
        ("12", False),
        (f"{HM}", False),
        (f"{HM}<|channel|>analysis<|message|>12", False),
        (f"{HM} to=functions.f<|channel|>commentary json<|message|>{{}}", False),
    ],
)
def test_harmony(answer: str, good: bool) -> None:
    assert fits(held(harmony=True).grammar(NUMBER, "<|start|>assistant", None, False), answer) is good


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        (f"{HM}{FINAL}12", True),
        (f"{HM}{FINAL}no", False),
        (f"{HM} to=functions.f<|channel|>commentary json<|message|>{{}}", True),
        (f"{HM}<|channel|>commentary to=functions.f <|constrain|>json<|message|>{{}}", True),
        (f"{HM}<|channel|>commentary to=functions.f<|message|>{{}}", True),
        (f"{HM}{REMARK} to=functions.f<|channel|>commentary json<|message|>{{}}", True),
        (f"{HM}{REMARK}{FINAL}12", False),
        (f"{HM}<|channel|>final <|constrain|>json<|message|>12", True),
        (f"{HM} to=functions.other<|channel|>commentary json<|message|>{{}}", False),
        (f"{HM} to=f<|channel|>commentary json<|message|>{{}}", False),
    ],
)
def test_harmony_with_tools(answer: str, good: bool) -> None:
    assert fits(held(harmony=True).grammar(NUMBER, "<|start|>assistant", TOOLS, False), answer) is good


def test_a_schema_that_is_refused_says_so_within_the_rest() -> None:
    grammar = held(THINK).grammar(Grammar.json({"type": "strin"}), "x", None, False)
    with pytest.raises(Refusal, match="failed to compile JSON schema: Invalid type: strin"):
        fits(grammar, "")


def test_blanks_are_bounded_within_the_rest() -> None:
    grammar = held(THINK).grammar(Grammar.json({"type": "object"}), "x", None, False)
    assert fits(grammar, '<think>a</think>{"a": 1}') and not fits(grammar, '<think>a</think>{  "a": 1}')
    assert "whitespace_pattern" in json.dumps(grammar.text)
