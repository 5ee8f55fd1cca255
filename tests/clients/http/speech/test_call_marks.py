"""How calls are marked, and how one begins, by what chat templates hold."""

import json

import pytest
from paceline.clients.http.speech.call_marks import CallMarks, Form, call_marks_of
from paceline.clients.http.speech.tool_calls import read_calls

from .test_tool_calls import offered

LLAMA = '{{ tools }}\'in the format {"name": function name, "parameters": dictionary of argument name and its value}\''


@pytest.mark.parametrize(
    ("source", "begin", "end", "named", "any_one"),
    [
        ('{% if tools %}<tool_call>{"name"', "<tool_call>", "</tool_call>",
         '<tool_call>\n{"name": "f", "arguments":', '<tool_call>\n{"name":'),
        ("{% if tools %}<tool_call>\n<function=", "<tool_call>", "</tool_call>",
         "<tool_call>\n<function=f>\n", "<tool_call>\n<function="),
        ("{% if tools %}<tool_call>{{ name }}<arg_key>", "<tool_call>", "</tool_call>",
         "<tool_call>f\n", "<tool_call>"),
        ("{{ tools }}<tool_call>{function-name}<arg_key>", "<tool_call>", "</tool_call>",
         "<tool_call>f", "<tool_call>"),
        ("{{ tools }}<seed:tool_call>\n<function=", "<seed:tool_call>", "</seed:tool_call>",
         "<seed:tool_call>\n<function=f>\n", "<seed:tool_call>\n<function="),
        ("{{ tools }}[TOOL_CALLS][", "[TOOL_CALLS]", "",
         '[TOOL_CALLS][{"name": "f", "arguments":', '[TOOL_CALLS][{"name":'),
        ("{{ tools }}[TOOL_CALLS]{{ name }}[ARGS]", "[TOOL_CALLS]", "", "[TOOL_CALLS]f[ARGS]", "[TOOL_CALLS]"),
        ("{{ tools }}'respond only with <|tool_call|> followed by'", "<|tool_call|>", "",
         '<|tool_call|>[{"name": "f", "arguments":', '<|tool_call|>[{"name":'),
        ("{{ tools }}'<TOOLCALL>[' + calls + ']</TOOLCALL>'", "<TOOLCALL>", "</TOOLCALL>",
         '<TOOLCALL>[{"name": "f", "arguments":', '<TOOLCALL>[{"name":'),
        ("{{ tools }}<|START_ACTION|>[", "<|START_ACTION|>", "<|END_ACTION|>",
         '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters":',
         '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name":'),
        ("{{ tools }}'<|tool_call>call:' + name", "<|tool_call>", "<tool_call|>",
         "<|tool_call>call:f{", "<|tool_call>call:"),
        ("{{ tools }}'<minimax:tool_call>'", "<minimax:tool_call>", "</minimax:tool_call>",
         '<minimax:tool_call>\n<invoke name="f">\n', '<minimax:tool_call>\n<invoke name="'),
        (LLAMA, "<|python_tag|>", "", '{"name": "f", "parameters":', '{"name":'),
    ],
)  # fmt: skip
def test_marks_are_those_of_the_template(source: str, begin: str, end: str, named: str, any_one: str) -> None:
    marks = call_marks_of(source)
    assert marks and (marks.begin, marks.end, marks.bare) == (begin, end, source == LLAMA)
    assert (marks.opening("f"), marks.opening(None)) == (named, any_one)


@pytest.mark.parametrize("source", ["{{ tools }}", "<tool_call>", "{{ messages }}<function=", ""])
def test_a_template_may_know_none(source: str) -> None:
    assert call_marks_of(source) is None


@pytest.mark.parametrize(
    ("marks", "rest"),
    [
        (CallMarks("<tool_call>", "</tool_call>", before='\n{"name":'), ' {"x": 1}}'),
        (CallMarks("<tool_call>", "</tool_call>", before="<function=", after=">\n", form=Form.FUNCTIONS),
         "<parameter=x>\n1\n</parameter></function>"),
        (CallMarks("<tool_call>", "</tool_call>", before="", after="\n", form=Form.PAIRS),
         "<arg_key>x</arg_key><arg_value>1</arg_value>"),
        (CallMarks("[TOOL_CALLS]", before="", after="[ARGS]", form=Form.NAMED), '{"x": 1}'),
        (CallMarks("[TOOL_CALLS]", before='[{"name":'), '{"x": 1}}]'),
        (CallMarks("<TOOLCALL>", "</TOOLCALL>", before='[{"name":'), '{"x": 1}}]'),
        (CallMarks("<|START_ACTION|>", "<|END_ACTION|>", before='[{"tool_call_id": "0", "tool_name":',
                   after=', "parameters":', form=Form.ACTIONS), ' {"x": 1}}\n]'),
        (CallMarks("<|tool_call>", "<tool_call|>", before="call:", after="{", form=Form.BRACED), "x:1}"),
        (CallMarks("<minimax:tool_call>", "</minimax:tool_call>", before='\n<invoke name="', after='">\n',
                   form=Form.INVOKES), '<parameter name="x">1</parameter>\n</invoke>\n'),
        (CallMarks("<|tool_call_start|>", "<|tool_call_end|>", before="[", after="(", form=Form.PYTHON), "x=1)]"),
        (CallMarks("<function_calls>", "</function_calls>", before="", after="(", form=Form.PYTHON), "x=1)"),
    ],
)  # fmt: skip
def test_what_is_begun_can_be_read_when_it_is_complete(marks: CallMarks, rest: str) -> None:
    text = (marks.opening("f") + rest).removeprefix(marks.begin)
    (one,) = read_calls(text, offered("f"), marks.form is Form.PYTHON)
    assert (one.name, json.loads(one.arguments)) == ("f", {"x": 1})
