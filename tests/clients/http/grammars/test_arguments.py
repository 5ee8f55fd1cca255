"""The arguments of held calls: where a text ends, words, references, and schemas that nothing can be held to."""

from typing import Any

import pytest
from paceline.clients.http.refused import HttpRefused
from paceline.clients.http.requests.holds import Hold
from paceline.clients.http.requests.tools import Tools
from paceline.clients.http.speech.call_marks import call_marks_of
from paceline.protocol import Refusal

from ..speech.test_tool_calls import as_function
from .held import fits, held
from .test_calls import CITY, FORMS, PROMPT, Arguments, Form, forced, offered, read, rest


def test_seeds_form() -> None:
    """Functions with a value on the line of its name."""
    form = Form("tools <seed:tool_call><function=", as_function)
    tools = offered(("weather",), several=False)
    call = (
        "<parameter=city>Rome</parameter>\n<parameter=unit>C</parameter>\n<parameter=days>3</parameter>\n</function>\n"
    )
    assert fits(forced(form, tools), f"{call}</seed:tool_call>")
    assert not fits(forced(form, tools), f"{call.replace('>C<', '>K<')}</seed:tool_call>")
    whole = f"{form.marks.opening('weather')}{call}</seed:tool_call>"
    assert read(form, whole, tools) == [("weather", {"city": "Rome", "unit": "C", "days": 3})]


@pytest.mark.parametrize("name", ["functions", "pairs"])
@pytest.mark.parametrize(("word", "value"), [("true", True), ("True", True), ("None", None), ("1", ...), ("yes", ...)])
def test_booleans_may_be_pythons(name: str, word: str, value: Any) -> None:
    form, schema = FORMS[name], {"properties": {"on": {"type": ["boolean", "null"]}}, "required": ["on"]}
    tools = offered(("weather",), several=False, schema={"type": "object", **schema})
    whole = form.whole("weather", {"on": word})
    assert fits(forced(form, tools), rest(form, form.marks.opening("weather"), whole)) is (value is not ...)
    if value is not ...:
        assert read(form, whole, tools) == [("weather", {"on": value})]


@pytest.mark.parametrize("name", ["functions", "pairs"])
def test_a_text_ends_where_whoever_reads_it_ends_it(name: str) -> None:
    form, tools = FORMS[name], offered(("weather",), several=False)
    ends = {"functions": ("</parameter>", "\n</parameter>\n"), "pairs": ("</arg_value>", "</arg_value>\n")}[name]
    for city in ("", "a\nb", " x "):
        whole = form.whole("weather", {"city": city, "days": 1})
        assert fits(forced(form, tools), rest(form, form.marks.opening("weather"), whole))
        assert read(form, whole, tools) == [("weather", {"city": city, "days": 1})]
    twice = form.whole("weather", {"city": f"a{ends[0]}b", "days": 1})
    assert not fits(forced(form, tools), rest(form, form.marks.opening("weather"), twice))


WORDS = {
    "type": "object",
    "properties": {
        "only": {"const": "this"},
        "enum": {"$ref": "#/$defs/E"},
        "maybe": {"anyOf": [{"$ref": "#/$defs/E"}, {"type": "null"}]},
        "kids": {"type": "array", "items": {"$ref": "#"}},
        "again": {"$ref": "#/properties/kids"},
    },
    "required": ["only"],
    "additionalProperties": False,
    "$defs": {"E": {"enum": ["a", "b"], "type": "string"}},
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(
    ("arguments", "good"),
    [
        ({"only": "this", "enum": "a", "maybe": "b"}, True),
        ({"only": "this", "kids": [{"only": "this", "kids": []}]}, True),
        ({"only": "this", "again": [{"only": "this"}]}, True),
        ({"only": "that"}, False),
        ({"only": "this", "enum": "c"}, False),
        ({"only": "this", "maybe": "c"}, False),
        ({"only": "this", "kids": [[]]}, False),
        ({"only": "this", "again": [{}]}, False),
    ],
)
def test_words_and_references(name: str, arguments: Arguments, good: bool) -> None:
    form, tools = FORMS[name], offered(("weather",), several=False, strict=True, schema=WORDS)
    text = rest(form, form.marks.opening("weather"), form.whole("weather", arguments))
    assert fits(forced(form, tools), text) is good


def test_what_has_no_names_that_could_be_read_is_open() -> None:
    odd = {"type": "object", "properties": {"a>b": {"type": "integer"}}}
    tools = offered(("weather",), several=False, schema=odd)
    assert fits(forced(FORMS["functions"], tools), "<parameter=x>1</parameter>\n</function>\n</tool_call>")
    assert fits(forced(FORMS["pairs"], tools), "<arg_key>x</arg_key><arg_value>1</arg_value></tool_call>")


ZOD = {"type": "object", "properties": {"mail": {"type": "string", "pattern": r"^(?!\.)a"}}, "required": ["mail"]}


def test_loose_tools_may_have_any_arguments_unless_they_are_strict() -> None:
    form, text = FORMS["hermes"], ' {"mail": "b"}}\n</tool_call>'
    tools = offered(("weather",), several=False, schema=ZOD)
    with pytest.raises(Refusal, match="look-around"):
        fits(forced(form, tools), text)
    for hold in (Hold.USABLE, Hold.TYPE):
        assert fits(held(calls=form.marks).grammar(None, PROMPT, tools, True, hold), text)
    strict = offered(("weather",), several=False, strict=True, schema=ZOD)
    with pytest.raises(Refusal, match="look-around"):
        fits(held(calls=form.marks).grammar(None, PROMPT, strict, True, Hold.TYPE), text)


@pytest.mark.parametrize("bad", [{"pattern": r"^(?!\.)a"}, {"type": "file"}, {"enum": []}, {"$ref": "#/none"}])
def test_a_schema_that_cannot_be_used_leaves_the_rest_of_it_and_other_tools_as_they_are(bad: dict[str, Any]) -> None:
    schema = CITY | {"properties": CITY["properties"] | {"bad": bad}, "required": [*CITY["required"], "bad"]}
    tools = Tools((*offered(schema=schema).described, *renamed(offered(), "other")), False, ("weather", "other"))
    form = FORMS["hermes"]
    with pytest.raises(Refusal):
        fits(forced(form, tools), "")
    held_to = held(calls=form.marks).grammar(None, PROMPT, tools, True, Hold.USABLE)
    for name, arguments, good in (
        ("other", {"city": "Rome", "days": 3}, True),
        ("other", {"city": 5, "days": 3}, False),
        ("weather", {"city": "Rome", "days": 3, "bad": "b"}, True),
        ("weather", {"city": 5, "days": 3, "bad": "b"}, False),
    ):
        text = rest(form, form.marks.opening(None), form.whole(name, arguments))
        assert fits(held_to, text) is good, (name, arguments)


def renamed(tools: Tools, name: str) -> list[dict[str, Any]]:
    [weather] = (one["function"] for one in tools.described if one["function"]["name"] == "weather")
    return [{"type": "function", "function": weather | {"name": name}}]


@pytest.mark.parametrize("schema", [{"const": float("nan")}, {"description": "\ud800"}, {"maximum": float("inf")}])
def test_what_is_no_json_is_refused(schema: Any) -> None:
    with pytest.raises(HttpRefused, match=r"^tools: "):
        forced(FORMS["hermes"], offered(("weather",), schema=schema))


def test_glms_name_without_a_line_end() -> None:
    call = "weather<arg_key>city</arg_key><arg_value>Rome</arg_value><arg_key>days</arg_key><arg_value>3</arg_value>"
    tools = offered(("now", "weather"), several=False)
    assert fits(forced(FORMS["pairs"], tools), f"{call}</tool_call>")
    named = call_marks_of("tools <tool_call>{function-name}<arg_key>")
    must = offered(("weather",), several=False)
    grammar = held(calls=named).grammar(None, PROMPT, must, True)
    assert fits(grammar, f"{call.removeprefix('weather')}</tool_call>")
