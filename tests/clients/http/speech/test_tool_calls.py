"""Calls of tools, read from what models write, in each of the ways that they were trained on."""

import json
import re
import time
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from paceline.clients.http.requests.tools import Tools
from paceline.clients.http.speech.tool_calls import Call, NoCall, read_calls

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "number": {"type": ["integer", "null"]},
        "list": {"type": "array", "items": {"type": "string"}},
        "flag": {"type": "boolean"},
        "odd": 5,
    },
}


def offered(*names: str, schema: Any = SCHEMA, several: bool = True) -> Tools:
    described = ({"type": "function", "function": {"name": name, "parameters": schema}} for name in names)
    return Tools(tuple(described), several)


TOOLS = offered("f", "g")


def read(text: str) -> list[tuple[str, Any]]:
    return [(one.name, json.loads(one.arguments)) for one in read_calls(text, TOOLS)]


def as_json(name: str, arguments: dict[str, Any]) -> str:
    return json.dumps({"name": name, "arguments": arguments})


def as_function(name: str, arguments: dict[str, Any]) -> str:
    given = "".join(f"<parameter={key}>\n{spelled(value)}\n</parameter>\n" for key, value in arguments.items())
    return f"<function={name}>\n{given}</function>"


def as_invoke(name: str, arguments: dict[str, Any]) -> str:
    given = "".join(f'<parameter name="{key}">{spelled(value)}</parameter>\n' for key, value in arguments.items())
    return f'<invoke name="{name}">\n{given}</invoke>'


def as_pairs(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}\n" + "\n".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{spelled(value)}</arg_value>" for key, value in arguments.items()
    )


def as_named(name: str, arguments: dict[str, Any]) -> str:
    return f"{name}[ARGS]{json.dumps(arguments, ensure_ascii=False)}"


def as_braced(name: str, arguments: dict[str, Any]) -> str:
    """As Gemma 4's template does, names in alphabetical order."""
    return f"call:{name}{braced(arguments)}"


def braced(value: Any) -> str:
    if isinstance(value, str):
        return f'<|"|>{value}<|"|>'
    if isinstance(value, dict):
        names = sorted(value, key=str.lower)
        return "{" + ",".join(f"{bare(name)}:{braced(value[name])}" for name in names) + "}"
    return f"[{','.join(map(braced, value))}]" if isinstance(value, list) else json.dumps(value)


def bare(name: str) -> str:
    """A name that could not be told from what stands around it is written as a string."""
    return name if re.fullmatch(r"\w+( \w+)*", name) else braced(name)


def spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def as_templates_do(name: str, arguments: dict[str, Any]) -> str:
    """What most templates of Qwen and Seed-OSS write: other values than objects as Python does."""
    given = "".join(
        f"<parameter={key}>{json.dumps(value) if isinstance(value, dict) else value}</parameter>\n"
        for key, value in arguments.items()
    )
    return f"<function={name}>\n{given}</function>"


WAYS = (as_json, as_function, as_invoke, as_pairs, as_named, as_braced)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
# Bare text holds any but the mark that ends it, and no blank line at its border would survive.
BARE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<\r\n"), min_size=1)


@pytest.mark.parametrize("way", [as_json, as_named, as_braced])
@given(arguments=st.dictionaries(st.text(), VALUES, max_size=4))
def test_arguments_in_json_may_be_anything(way: Any, arguments: dict[str, Any]) -> None:
    assume(r"<|\"|>" not in json.dumps(arguments))  # Gemma 4 has no way to write the mark of a string in one
    assert read(way("f", arguments)) == [("f", arguments)]


@pytest.mark.parametrize("way", [as_function, as_invoke, as_pairs, as_templates_do])
@given(
    text=BARE,
    maybe=st.none() | BARE.filter(lambda text: text not in ("null", "None")),
    number=st.none() | st.integers(),
    words=st.lists(BARE),
    flag=st.booleans(),
)
def test_arguments_in_bare_text_have_the_types_of_the_schema(
    way: Any, text: str, maybe: str | None, number: int | None, words: list[str], flag: bool
) -> None:
    arguments = {"text": text, "maybe": maybe, "number": number, "list": words, "flag": flag}
    assert read(way("f", arguments)) == [("f", arguments)]


@pytest.mark.parametrize("way", WAYS)
def test_a_call_may_have_no_arguments(way: Any) -> None:
    assert read(way("g", {})) == [("g", {})]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('[{"name": "f", "arguments": {"text": "a"}}, {"name": "g", "parameters": {}}]',
         [("f", {"text": "a"}), ("g", {})]),
        ('{"name": "f", "arguments": {}}\n{"name": "g", "arguments": {}}', [("f", {}), ("g", {})]),
        ('{"name": "f", "parameters": {"x": 1}}; {"name": "g", "parameters": null}', [("f", {"x": 1}), ("g", {})]),
        ('{"name": "f", "arguments": "{\\"x\\": 1}"}', [("f", {"x": 1})]),
        ('{"name": "f"}', [("f", {})]),
        ('{"name": "unheard of", "arguments": {}}', [("unheard of", {})]),
        ("<function=f><parameter=text>a</parameter></function>", [("f", {"text": "a"})]),
        ("<function=f>\n<parameter=text>\n\n a \n\n</parameter>\n</function>", [("f", {"text": "\n a \n"})]),
        ("<function=f>\n<parameter=text>\n<b></parameter>\n</b>\n</parameter>\n</function>",
         [("f", {"text": "<b></parameter>\n</b>"})]),
        ("<function=f>\n<parameter=list>\n[1\n</parameter>\n</function>", [("f", {"list": "[1"})]),
        ("<function=f><parameter=text>a\n</parameter></function>", [("f", {"text": "a\n"})]),
        ("<function=f><parameter=list>{1}</parameter><parameter=new>[b'']</parameter></function>",
         [("f", {"list": "{1}", "new": "[b'']"})]),
        ("<function=f><parameter=new>1e999</parameter><parameter=odd>[1e999]</parameter></function>",
         [("f", {"new": "1e999", "odd": "[1e999]"})]),
        ("<function=f><parameter=new>(1, 2)</parameter><parameter=odd>[(1, None)]</parameter></function>",
         [("f", {"new": "(1, 2)", "odd": [[1, None]]})]),
        ("f\n<arg_key>text</arg_key><arg_value>a</arg_value>b</arg_value>", [("f", {"text": "a</arg_value>b"})]),
        ('{"name": "f", "arguments": {"text": "a\n\tb"}}', [("f", {"text": "a\n\tb"})]),
        ("<function=f>\n<parameter=odd>\n{}\n</parameter>\n<parameter=new>\n1.5\n</parameter>\n</function>",
         [("f", {"odd": {}, "new": 1.5})]),
        ("<function=f>\n</function>\n<function=g>\n<parameter=text>\n7\n</parameter>\n</function>",
         [("f", {}), ("g", {"text": "7"})]),
        ('<invoke name="f">\n<parameter name="text">\n<parameter name="x">a</parameter>b\n</parameter>\n'
         '<parameter name="number">\n7\n</parameter></invoke><invoke name="g"></invoke>',
         [("f", {"text": '\n<parameter name="x">a</parameter>b\n', "number": 7}), ("g", {})]),
        ("f<arg_key>text</arg_key><arg_value>7</arg_value><arg_key>number</arg_key><arg_value>7</arg_value>",
         [("f", {"text": "7", "number": 7})]),
        ("other\n<arg_key>text</arg_key>\n<arg_value>NaN</arg_value>", [("other", {"text": "NaN"})]),
        ('f[CALL_ID]a1b2c3d4e[ARGS]{"x": "[ARGS]"}', [("f", {"x": "[ARGS]"})]),
        ('call:f{text:<|"|>a "b", {c}:\n<tool_call|><|"|>,x:[1.5e3,-7,true,null,{}],y:{z:<|"|><|"|>}}',
         [("f", {"text": 'a "b", {c}:\n<tool_call|>', "x": [1500.0, -7, True, None, {}], "y": {"z": ""}})]),
        ('call: f { <|"|>a:b<|"|> : None , "c" : "d\\n" , e f : [ True , celsius deg ] , g:NaN } ',
         [("f", {"a:b": None, "c": "d\n", "e f": [True, "celsius deg"], "g": "NaN"})]),
        ("call:unheard.of:it{}", [("unheard.of:it", {})]),
    ],
)  # fmt: skip
def test_ways_to_call(text: str, calls: list[tuple[str, Any]]) -> None:
    assert read(f"\n{text}\n ") == calls


@pytest.mark.parametrize(
    "text",
    [
        "", " \n", "Hello.", "[]", "{}", "[1]", "null", '{"name": 5, "arguments": {}}',
        '{"name": "f", "arguments": []}',
        '{"name": "f", "arguments": "no"}', '{"name": "f", "arguments": "[]"}', '{"name": "f", "arguments": {}',
        '{"name": "f", "arguments": {"x": 1e999}}', '{"name": "f", "arguments": {"x": ' + "[" * 64 + "]" * 64 + "}}",
        '{"name": "f", "arguments": {"x": NaN}}', '{"name": "f", "arguments": {}} Hello.', '{"name": "unheard of"}',
        '{"name": " ", "arguments": {}}', '{"name": "f\\ng", "arguments": {}}', "[" * 100_000,
        '{"name": "f", "arguments": "' + '{\\"x\\":' * 50_000 + '"}',
        "<function=f>", "<function=f>\n<parameter=text>\na\n</function>", "<function=>\n</function>",
        '<invoke name="f">', '<invoke name="f">\n<parameter name="text">a</invoke>', '<invoke name="">\n</invoke>',
        '<invoke name="f">\n</invoke> Hello.',
        "<function=f>\n</function> Hello.", "f\n<arg_key>text</arg_key>", "f\n<arg_key>text</arg_key>\n<arg_value>1",
        "<arg_key>text</arg_key>\n<arg_value>1</arg_value>", "f[ARGS]", "f[ARGS]5", "[ARGS]{}",
        "f[ARGS]{} and g[ARGS]{}",
        "call:f", "call:f{", "call:{}", "call:f{x:1", "call:f{x:1}}", "call:f{x:1} and", "call:f{x}", "call:f{:1}",
        "call:f{x:}", 'call:f{x:<|"|>a}', "call:f{x:[1,}", "call:f{x:<b>}", "call:f{x:1e999<}",
        "call:f{x:" + "[" * 64 + "]" * 64 + "}", "call:f{x:" + "[" * 100_000, "call:f{x:" + "{a:" * 100_000,
        'call:f{x:a<|"|>b<|"|>}', 'call:f{x:"a}',
        "two\nlines\n<arg_key>text</arg_key>\n<arg_value>1</arg_value>", "unheard of",
    ],
)  # fmt: skip
def test_what_is_no_call(text: str) -> None:
    with pytest.raises(NoCall):
        read_calls(text, TOOLS)


@given(st.text())
def test_whatever_is_written_is_a_call_or_none(text: str) -> None:
    try:
        calls = read_calls(text, TOOLS)
    except NoCall:
        return
    assert calls and all(one.name.strip() == one.name != "" for one in calls)
    assert all(isinstance(json.loads(one.arguments), dict) for one in calls)


def test_nesting_may_be_deep_but_not_too_deep() -> None:
    assert read('{"name": "f", "arguments": {"x": ' + "[" * 63 + "]" * 63 + "}}")
    for depth in range(940, 1010, 3):
        with pytest.raises(NoCall):
            read_calls('{"name": "f", "arguments": {"x": ' + "[" * depth + "]" * depth + "}}", TOOLS)


@pytest.mark.parametrize(
    "text",
    [
        "f\n<arg_key>" + "</arg_key><arg_value>" * 20_000,
        "f\n<arg_key>" + "<arg_value></arg_value>" * 20_000,
        "<function=f>" + "<parameter=x>" * 20_000,
        "<function=f>" + "<parameter=x></parameter>" * 20_000,
        '<invoke name="f">' + '<parameter name="x"></parameter>' * 20_000,
        '{"name": "f", "arguments": {"x": "' + '\\"' * 100_000,
        "call:f{x:[" + '<|"|>' * 99_999,
        "call:f{x:[" + "1," * 100_000,
        "call:f{x:" + " a" * 100_000,
        "call:f{" + " a" * 100_000,
    ],
)
def test_damage_takes_no_time(text: str) -> None:
    """Quadratic, each would take seconds."""
    begun = time.thread_time()
    with pytest.raises(NoCall):
        read_calls(text, TOOLS)
    assert time.thread_time() - begun < 1


def test_half_of_a_surrogate_pair_can_be_sent() -> None:
    (one,) = read_calls('{"name": "a\\ud800", "arguments": {"x": "\\udfff", "y": "\\ud83d\\ude42é"}}', TOOLS)
    assert one == Call("a\ufffd", '{"x": "\ufffd", "y": "🙂é"}')
    assert one.arguments.encode()


def test_tools_know_their_arguments() -> None:
    assert TOOLS.types("f", "maybe") == {"string", "null"} and TOOLS.types("other", "maybe") == set()
    assert TOOLS.has("f") and not TOOLS.has("other")
