"""Calls as LFM2's and OLMo's models write them: as Python would."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.http.speech.call_marks import Form, call_marks_of
from paceline.clients.http.speech.open_call import OpenCall, form_of
from paceline.clients.http.speech.tool_calls import NoCall, read_calls

from .test_call_splitter import cut, split, told
from .test_tool_calls import offered

LFM, OLMO = call_marks_of("tools <|tool_call_start|>"), call_marks_of("tools <function_calls>")
assert LFM and OLMO


def as_json_values(name: str, arguments: dict[str, Any]) -> str:
    """As OLMo's template does."""
    return f"{name}({', '.join(f'{key}={json.dumps(value, ensure_ascii=False)}' for key, value in arguments.items())})"


def as_python(name: str, arguments: dict[str, Any]) -> str:
    """As Python itself would."""
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def read(text: str) -> list[tuple[str, Any]]:
    return [(one.name, json.loads(one.arguments)) for one in read_calls(text, offered("f", "g"), python=True)]


def test_how_a_call_begins() -> None:
    assert call_marks_of("tools <|tool_list_start|>") == LFM
    assert (LFM.opening("f"), LFM.opening(None)) == ("<|tool_call_start|>[f(", "<|tool_call_start|>[")
    assert (OLMO.opening("f"), OLMO.opening(None)) == ("<function_calls>f(", "<function_calls>")


NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("write", [as_json_values, as_python])
@given(arguments=st.dictionaries(NAMES, VALUES, max_size=4))
def test_arguments_may_be_anything(write: Any, arguments: dict[str, Any]) -> None:
    assert read(write("f", arguments)) == [("f", arguments)]
    assert read(f"[{write('f', arguments)}, {write('g', {})}]") == [("f", arguments), ("g", {})]
    assert read(f"{write('f', arguments)}\n{write('g', arguments)}\n") == [("f", arguments), ("g", arguments)]
    text = write("f", arguments)
    assert not OpenCall(0, python=True).at(text, len(text))
    for end in range(2, len(text)):
        with pytest.raises(NoCall):
            read(text[:end])


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("f(text='it's', number=5)", {"text": "it's", "number": 5}),
        ("f(text='say \"yes\"')", {"text": 'say "yes"'}),
        ('f(text="say "yes" or no")', {"text": 'say "yes" or no'}),
        (r"f(text='C:\\a\d\'\n\x41\u00e9\U0001f642\ud83d\ude42')", {"text": "C:\\a\\d'\nA\u00e9\U0001f642\U0001f642"}),
        (r'f(text="\ud83d")', {"text": "\ufffd"}),
        ('f(text="""two\nlines "quoted\\"""")', {"text": 'two\nlines "quoted"'}),
        ("f(text='''a''', list=['''b''', '', ''''''])", {"text": "a", "list": ["b", "", ""]}),
        ('f(text="""print("a")\nprint("b")""")', {"text": 'print("a")\nprint("b")'}),
        ('f(text="""say "a""""\n)', {"text": 'say "a"'}),
        ('f(text="""a", list="""b""", number=5)', {"text": 'a", list="""b', "number": 5}),
        ("f(text='''it's'''' )", {"text": "it's'"}),
        ('f(list=["a"\n            ],\n  text="b"\n          )', {"list": ["a"], "text": "b"}),
        ("f(a=.5, b=5., c=+5, d=1_000, e=0x10, g=inf, h=1e999)",
         {"a": 0.5, "b": 5.0, "c": 5, "d": 1000, "e": 16, "g": "inf", "h": "1e999"}),
        ("f(a=1or, b=1.2.3, c=0x, d=-2026-11-26)", {"a": "1or", "b": "1.2.3", "c": "0x", "d": "-2026-11-26"}),
        ("f($filter='a', 1st='b', a-b.c=1)", {"$filter": "a", "1st": "b", "a-b.c": 1}),
        ("f(text=Rome, flag=true, maybe=null, number=-1.5e3)",
         {"text": "Rome", "flag": True, "maybe": None, "number": -1500}),
        ("f( text = 'a' , list = [ 1 , 2 , ] , )", {"text": "a", "list": [1, 2]}),
        ("f(odd={'a': {b: None}, \"c\": False})", {"odd": {"a": {"b": None}, "c": False}}),
        ("f(text='a\n)]')", {"text": "a\n)]"}),
    ],
)  # fmt: skip
def test_ways_to_write_an_argument(text: str, arguments: dict[str, Any]) -> None:
    assert read(text) == [("f", arguments)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[f(), g()]", ["f", "g"]),
        ("[ f ()\n]\n", ["f"]),
        ("[f(), ", ["f"]),  # cut off
        ("f();g()", ["f", "g"]),
        ("mcp:a.b/c-d()", ["mcp:a.b/c-d"]),
        ("[2fa(), -fa()]", ["2fa", "-fa"]),
    ],
)
def test_calls_in_a_list_or_one_after_the_other(text: str, names: list[str]) -> None:
    assert [name for name, _ in read(text)] == names


@pytest.mark.parametrize(
    "text",
    [
        "f(", "f(x", "f(x=", "f(x=1", "f(1)", "f('a')", "f(x=1 y=2)", "f(x=g())", "f() and", "[f()] and", "(x=1)",
        "f(x=[1)", "f(x={1})", "f(x='a)", "f(x=New York)", "f(,)", "f(x=1,,y=2)", "f(='a')", "f(x='say 'a', b')",
        "(5)()", f"f(x={'[' * 64}{']' * 64})", f"f(x={'[' * 100_000}", f"f(x={'{a:' * 100_000}",
    ],
)  # fmt: skip
def test_what_is_no_call(text: str) -> None:
    with pytest.raises(NoCall):
        read(text)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("marks", [LFM, OLMO])
def test_calls_in_pieces(marks: Any, size: int) -> None:
    text = as_python("f", {"text": f"{marks.end} it's", "list": [marks.end]})
    both = f"[{text}, g()]" if marks is LFM else f"{text}\ng()"
    block = f"{marks.begin}{both}{marks.end}"
    assert told(split(marks, cut(f"I will look.\n\n{block}\nSo.", size))) == ["I will look.", "→f", "→g", "So."]
    assert told(split(marks, cut(block, size), several=False)) == ["→f"]
    assert told(split(marks, cut(block.removesuffix(marks.end), size))) == ["→f", "→g"]
    wrong = f"{marks.begin}f({marks.end}"
    assert told(split(marks, cut(wrong, size))) == [wrong]
    as_list = f'{marks.begin}[{{"name": "f", "arguments": {{}}}}]{marks.end}'  # how LFM2 is shown earlier calls
    assert told(split(marks, cut(as_list, size))) == ["→f"]


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("f(", False),
        ("f(x='", True),
        ("f(x='a\\'", True),
        ("f(x='a'", True),  # it could go on
        ("f(x='a',", False),
        ('[f(x="it\'s"', True),
        ('[f(x="it\'s")]', False),
        ("f(x='it's')", False),
        ("f(x='''a''')", False),
        ("f(x='''a')", True),
        ('f(x="""a", y="""', True),
        ("f(x='''''')", False),
        ("f(x='')", False),
        ("f(x='a'         )", False),
    ],
)
def test_what_is_still_open(text: str, more: bool) -> None:
    assert form_of(text, python=True) is Form.PYTHON and OpenCall(0, python=True).at(text, len(text)) is more


def test_only_models_that_were_told_to_write_it_do() -> None:
    tools = offered("f")
    for text in ("f(x=1)", "print(x=1)"):
        assert form_of(text) is Form.PAIRS
        with pytest.raises(NoCall):
            read_calls(text, tools)
    hermes = call_marks_of("tools <tool_call>")
    said = """<tool_call>f(a) it's</tool_call> and <tool_call>{"name": "f", "arguments": {}}</tool_call>"""
    assert told(split(hermes, [said])) == ["<tool_call>f(a) it's</tool_call> and", "→f"]


@pytest.mark.parametrize(
    "text",
    [
        "f(x='" + "'" * 100_000,
        "f(x='" + "' " * 100_000,
        "f(x='" + "\\" * 100_000,
        "f(" + " " * 100_000,
        "f" * 100_000,
        "f(x=" + "a" * 100_000,
        "f(x=1" + ", " * 100_000,
        "[" + " " * 100_000,
        "f();" * 30_000 + "f",
    ],
)
def test_damage_takes_no_time(text: str) -> None:
    began = time.thread_time()
    with pytest.raises(NoCall):
        read(text)
    assert LFM and told(split(LFM, cut(LFM.begin + text, 16))) == [LFM.begin + text]
    assert time.thread_time() - began < 3
