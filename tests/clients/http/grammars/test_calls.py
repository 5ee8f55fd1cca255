"""Calls that are held to the tools that were offered: those that have to be made, and those of strict tools.

Each form is written here as a template would, taken by its grammar, and read back as the call that it is."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from paceline.clients.http.requests.tools import Tools
from paceline.clients.http.speech.call_marks import CallMarks, call_marks_of
from paceline.clients.http.speech.call_splitter import CallSplitter
from paceline.clients.http.speech.cutter import Delta
from paceline.protocol import Grammar

from ..speech.test_block_calls import as_block, as_fenced, as_section
from ..speech.test_python_calls import as_json_values
from ..speech.test_tool_calls import as_braced, as_function, as_invoke, as_named, as_pairs
from .held import fits, held

CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "unit": {"enum": ["C", "F"]},
        "days": {"type": "integer"},
        "more": {"$ref": "#/$defs/more"},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
    "$defs": {"more": {"type": "array", "items": {"type": "boolean"}}},
}
EMPTY = {"type": "object", "properties": {}, "additionalProperties": False}
Arguments = dict[str, Any]


def offered(must: tuple[str, ...] = (), several: bool = True, strict: bool = False, schema: Any = CITY) -> Tools:
    schemas = {"weather": schema, "now": EMPTY}
    described = ({"type": "function", "function": {"name": name, "parameters": schemas[name]}} for name in schemas)
    return Tools(tuple(described), several, must, frozenset(schemas if strict else ()))


class Form(NamedTuple):
    template: str
    write: Callable[[str, Arguments], str]  # a call without its marks
    bare: bool = False

    @property
    def marks(self) -> CallMarks:
        marks = call_marks_of(self.template)
        assert marks
        return marks

    def whole(self, name: str, arguments: Arguments) -> str:
        marks, text = self.marks, self.write(name, arguments)
        text = f"[{text}]" if marks.before.startswith("[") else text
        first, last = "\n" if marks.before.startswith("\n") else "", "\n" if marks.end.startswith("</") else ""
        return text if marks.bare else f"{marks.begin}{first}{text}{last}{marks.end}"


def as_json(name: str, arguments: Arguments) -> str:
    return json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)


def as_parameters(name: str, arguments: Arguments) -> str:
    return as_json(name, arguments).replace('"arguments"', '"parameters"', 1)


def as_action(name: str, arguments: Arguments) -> str:
    action = json.dumps({"tool_call_id": "0", "tool_name": name, "parameters": arguments}, ensure_ascii=False)
    return f"\n    {action}\n"


FORMS = {
    "hermes": Form("tools <tool_call>", as_json),
    "seed": Form("tools <seed:tool_call>", as_json),
    "list": Form("tools [TOOL_CALLS]", as_json),
    "granite": Form("tools <|tool_call|>", as_json),
    "tagged list": Form("tools <TOOLCALL>", as_json),
    "actions": Form("tools <|START_ACTION|>", as_action),
    "named": Form("tools [TOOL_CALLS][ARGS]", as_named),
    "invokes": Form("tools <minimax:tool_call>", as_invoke),
    "python": Form("tools <function_calls>", as_json_values),
    "python list": Form("tools <|tool_call_start|>", as_json_values),
    "functions": Form("tools <tool_call><function=", as_function),
    "pairs": Form("tools <tool_call><arg_key>", as_pairs),
    "braced": Form("tools <|tool_call>call:", as_braced),
    "block": Form("tools <｜tool▁call▁begin｜>", as_block),
    "section": Form("tools <|tool_calls_section_begin|>", as_section),
    "fenced": Form("tools <｜tool▁call▁begin｜>```json", as_fenced),
    "llama": Form('tools {"name": function name, "parameters": x}', as_parameters),
}
PROMPT = "<assistant>"
GOOD: list[Arguments] = [
    {"city": "Rome", "unit": "C", "days": 3, "more": [True, False]},
    {"city": 'Sao "P" \u00e9\n\n x', "days": -1},
    {"city": "", "days": 0},
]
BAD: list[Arguments] = [
    {"city": "Rome"},
    {"city": "Rome", "days": "x"},
    {"city": "Rome", "unit": "K", "days": 3},
    {"city": "Rome", "days": 3, "other": 1},
    {"city": "Rome", "days": 3, "more": [1]},
]
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def read(form: Form, text: str, tools: Tools) -> list[tuple[str, Arguments]]:
    splitter = CallSplitter(form.marks, tools)
    parts = [*splitter.push(Delta(text)), *splitter.finish(Delta(""))]
    return [(one.call.name, json.loads(one.call.arguments)) for one in parts if one.call]


def rest(form: Form, begun: str, whole: str) -> str:
    """What stands behind the beginning in a call; blanks at the edge differ."""
    assert whole.startswith(begun), (whole, begun)
    return whole.removeprefix(begun)


def forced(form: Form, tools: Tools) -> Grammar | None:
    return held(calls=form.marks).grammar(None, PROMPT, tools, True)


@each_form
def test_the_arguments_of_a_call_that_has_to_be_made(form: Form) -> None:
    tools = offered(("weather",), several=False)
    grammar, begun = forced(form, tools), form.marks.opening("weather")
    for arguments in GOOD:
        whole = form.whole("weather", arguments)
        assert fits(grammar, rest(form, begun, whole))
        assert read(form, whole, tools) == [("weather", arguments)]
    for arguments in BAD:
        assert not fits(grammar, rest(form, begun, form.whole("weather", arguments)))
    assert not fits(grammar, rest(form, begun, form.whole("weather", GOOD[0])) + " Well.")


@each_form
def test_a_call_of_any_tool_has_to_be_made(form: Form) -> None:
    tools = offered(("weather", "now"), several=False)
    grammar, begun = forced(form, tools), form.marks.opening(None)
    for name, arguments in (("weather", GOOD[0]), ("now", {})):
        assert fits(grammar, rest(form, begun, form.whole(name, arguments)))
    for name, arguments in (("other", {}), ("now", GOOD[0]), ("weather", {})):
        if form.write in (as_function, as_invoke, as_pairs) and name == "now":
            continue  # nothing is known of its arguments
        assert not fits(grammar, rest(form, begun, form.whole(name, arguments)))


@each_form
@pytest.mark.parametrize("several", [False, True])
def test_another_call_may_follow_where_there_may_be_several(form: Form, several: bool) -> None:
    tools = offered(("weather", "now"), several=several)
    begun = form.marks.opening(None)
    first, second = form.whole("weather", GOOD[0]), form.whole("now", {})
    both = f"{first}\n{second}" if form.marks.end else first + second
    if form.marks.before.startswith("["):
        both = f"{first.removesuffix(form.marks.end).rstrip()[:-1]}, {second.removeprefix(form.marks.begin)[1:]}"
    elif form.write in (as_block, as_fenced, as_section, as_invoke, as_json_values):  # calls of one block
        both = first.removesuffix(form.marks.end) + second.removeprefix(form.marks.begin)
    can = several and not form.marks.bare
    assert fits(forced(form, tools), rest(form, begun, both)) is can
    if can:
        assert read(form, both, tools) == [("weather", GOOD[0]), ("now", {})]


@each_form
def test_strict_tools_among_text(form: Form) -> None:
    tools = offered(strict=True)
    grammar = held(calls=form.marks).grammar(None, PROMPT, tools, False)
    if form.marks.bare:
        assert grammar is None  # a text may begin like a call
        return
    good, bad = form.whole("weather", GOOD[1]), form.whole("weather", BAD[1])
    for text in ("Well, <b> then.", good, f"I will.\n{good}"):
        assert fits(grammar, text), text
    assert fits(grammar, f"{good} Done.") is bool(form.marks.end)  # else it would belong to the call
    assert fits(grammar, f"{good}\n{good}") is (form.marks.end != "" or not form.marks.before.startswith("["))
    for text in (bad, f"I will.\n{bad}", f"{good}\n{bad}", form.whole("other", {})):
        assert not fits(grammar, text), text
    once = held(calls=form.marks).grammar(None, PROMPT, offered(several=False, strict=True), False)
    assert fits(once, f"I will.\n{good}") and not fits(once, f"{good}\n{good}")


@each_form
def test_strict_tools_beside_a_format(form: Form) -> None:
    tools, number = offered(strict=True), Grammar.json({"type": "integer"})
    grammar = held(calls=form.marks).grammar(number, PROMPT, tools, False)
    assert fits(grammar, "12") and fits(grammar, form.whole("weather", GOOD[0]))
    assert not fits(grammar, "Well.")
    if not form.marks.bare:
        assert not fits(grammar, form.whole("weather", BAD[0]))


@each_form
def test_tools_that_are_not_strict_leave_all_open(form: Form) -> None:
    assert held(calls=form.marks).grammar(None, PROMPT, offered(), False) is None


@each_form
def test_a_word_that_nothing_can_be_held_to_is_left_out(form: Form) -> None:
    odd = CITY | {
        "not": {"required": ["never"]},
        "properties": CITY["properties"] | {"days": {"type": "integer", "not": {}}},
    }  # type: ignore[operator]
    tools = offered(("weather",), several=False, schema=odd)
    grammar, begun = forced(form, tools), form.marks.opening("weather")
    assert fits(grammar, rest(form, begun, form.whole("weather", GOOD[0])))


CALL = "<|channel|>commentary json<|message|>"


@pytest.mark.parametrize(
    ("must", "answer", "good"),
    [
        (("weather",), json.dumps(GOOD[0]), True),
        (("weather",), json.dumps(BAD[1]), False),
        (("weather", "now"), f"now{CALL}{{}}", True),
        (("weather", "now"), f"weather{CALL}{json.dumps(GOOD[0])}", True),
        (("weather", "now"), "now<|channel|>commentary <|constrain|>json<|message|>{}", True),
        (("weather", "now"), f"weather{CALL}{json.dumps(BAD[1])}", False),
        (("weather", "now"), f"other{CALL}{{}}", False),
    ],
)
def test_harmonys_call_that_has_to_be_made(must: tuple[str, ...], answer: str, good: bool) -> None:
    assert fits(held(harmony=True).grammar(None, PROMPT, offered(must), True), answer) is good


HM = "<|channel|>analysis<|message|>Hm: 5.<|end|><|start|>assistant"


@pytest.mark.parametrize(
    ("answer", "good"),
    [
        (f"{HM}<|channel|>final<|message|>Well, then.", True),
        (f"{HM} to=functions.now{CALL}{{}}", True),
        (f"{HM}<|channel|>commentary<|message|>I will.<|end|><|start|>assistant to=functions.now{CALL}{{}}", True),
        (f"{HM}<|channel|>commentary to=functions.now <|constrain|>json<|message|>{{}}", True),
        (f"{HM} to=functions.weather{CALL}{json.dumps(BAD[0])}", False),
        (f"{HM} to=functions.other{CALL}{{}}", False),
    ],
)
def test_harmonys_strict_tools(answer: str, good: bool) -> None:
    assert fits(held(harmony=True).grammar(None, "<|start|>assistant", offered(strict=True), False), answer) is good


def test_mistrals_ids() -> None:
    tools = offered(("now", "weather"), several=False)
    assert fits(forced(FORMS["named"], tools), "now[CALL_ID]a1b2c3d4e[ARGS]{}")
    assert fits(forced(FORMS["list"], tools), ' "now", "arguments": {}, "id": "a1b2c3d4e"}]')


def test_two_tools_of_one_name() -> None:
    tools = offered()
    twice = Tools(tools.described * 2, several=False, must=("now",))
    assert fits(forced(FORMS["hermes"], twice), " {}}\n</tool_call>")
