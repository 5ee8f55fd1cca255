"""What a grammar takes of calls as Python writes them, beside what all forms have in common (test_calls.py)."""

from typing import Any

import pytest
from paceline.clients.http.requests.tools import Tools
from paceline.clients.http.speech.call_marks import call_marks_of

from .held import fits, held

MARKS = call_marks_of("tools <function_calls>")
SCHEMA = {
    "type": "object",
    "properties": {
        "unit": {"enum": ["C", "it's", None]},
        "text": {"type": "string"},
        "flag": {"type": "boolean"},
        "any": {},
        "mixed": {"type": ["string", "integer", "null"]},
        "numbers": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["text"],
}


def takes(arguments: str, schema: Any = SCHEMA) -> bool:
    described = {"type": "function", "function": {"name": "f", "parameters": schema}}
    tools = Tools((described,), False, ("f",), frozenset({"f"}))
    grammar = held(calls=MARKS).grammar(None, "<assistant>", tools, True)
    return fits(grammar, f"{arguments})</function_calls>")


@pytest.mark.parametrize(
    "arguments",
    [
        'text="a"',
        "text='a'",
        r"text='it\'s \"so\"'",
        'unit="C", text=""',
        "unit='C', text=''",
        'unit="it\'s", text="a"',
        "unit=None, text='a'",
        "unit=null, text='a'",
        "text='a', flag=True",
        "text='a',flag=false, any=None",
        'text="a", any=[1, {"b": "c"}]',
        "text='a', any='b', mixed='c', numbers=[1, 2]",
        "text='a', mixed=5",
        "text='a', numbers=[]",
    ],
)
def test_what_is_taken(arguments: str) -> None:
    assert takes(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "unit='C'",
        "flag=True, text='a'",
        "text=a",
        "text=5",
        "text='a",
        "text='a'b'",
        "text='a', unit='C'",
        "unit='K', text='a'",
        "unit=C, text='a'",
        "text='a', flag=1",
        "text='a', numbers=['b']",
        "text='a', other=1",
        "text='a',",
        ", text='a'",
        "'a'",
    ],
)
def test_what_is_not_taken(arguments: str) -> None:
    assert not takes(arguments)


@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {"a b": {"type": "string"}}}])
def test_a_schema_whose_arguments_cannot_be_listed_leaves_them_open(schema: Any) -> None:
    assert all(takes(text, schema) for text in ("", "a=1", "a='b', c=[true]", "a=None"))
    assert not takes("1", schema) and not takes("a=b", schema)


def test_there_may_be_none() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    assert takes("", schema) and not takes("a=1", schema)


def test_many_arguments_that_may_be_left_out_are_one_rule_each() -> None:
    schema = {"type": "object", "properties": {f"a{number}": {"type": "integer"} for number in range(100)}}
    assert takes("a0=1, a7=2, a99=3", schema) and takes("", schema) and not takes("a7=2, a0=1", schema)
