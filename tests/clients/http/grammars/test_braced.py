"""Arguments as Gemma 4 writes them, held to schemas: what fits can be read back, and is by the schema."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from paceline.clients.http.grammars.braced import BracedRules
from paceline.clients.http.refused import HttpRefused
from paceline.protocol import Grammar

from ..speech.test_tool_calls import braced
from .held import fits
from .test_calls import FORMS, forced, offered, read

FORM = FORMS["braced"]
Q = '<|"|>'
TREE = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"enum": ["a b", "", 3, None, True, [1, "x"], {"y": "z", "b": 1.5}]},
        "size": {"type": "number", "minimum": 0},
        "under": {"type": "array", "items": {"$ref": "#"}},
        "pair": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3},
        "notes": {"type": "object", "additionalProperties": {"type": ["boolean", "null"]}},
        "either": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/text"}]},
        "odd: {name}": {"const": "b"},
        "any": {},
    },
    "required": ["name", "size"],
    "additionalProperties": False,
    "$defs": {"text": {"type": "string", "description": "a text"}},
}


def held_to(schema: Any, strict: bool = False) -> Grammar:
    grammar = forced(FORM, offered(("weather",), several=False, strict=strict, schema=schema))
    assert grammar
    return grammar


TREES = held_to(TREE, strict=True)


def fit(grammar: Grammar, text: str) -> bool:
    """Whether these arguments fit; if they do, they are a call."""
    found = fits(grammar, f"{text.removeprefix('{')}<tool_call|>")
    assert not found or read(FORM, f"<|tool_call>call:weather{text}<tool_call|>", offered())
    return found


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=9).filter(lambda text: Q not in text)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "B", "c:d", "é"]), inner),
    max_leaves=4,
)
LEAVES = st.fixed_dictionaries(
    {"name": TEXTS, "size": st.integers(0, 99) | st.floats(0, 99).map(lambda number: round(number, 3))},
    optional={
        "kind": st.sampled_from(TREE["properties"]["kind"]["enum"]),  # type: ignore[index]
        "pair": st.lists(st.integers(-9, 9), min_size=2, max_size=3),
        "notes": st.dictionaries(st.sampled_from(["x", "y_1", "z z"]), st.sampled_from([True, False, None])),
        "either": st.integers(0, 9) | TEXTS,
        "odd: {name}": st.just("b"),
        "any": ANYTHING,
    },
)
NODES = st.builds(lambda node, under: node | {"under": under}, LEAVES, st.lists(LEAVES, max_size=2)) | LEAVES


@settings(deadline=None, max_examples=60)
@given(NODES)
def test_what_is_by_the_schema_fits_and_is_read_back(arguments: dict[str, Any]) -> None:
    assert fit(TREES, braced(arguments))
    whole = f"<|tool_call>call:weather{braced(arguments)}<tool_call|>"
    assert read(FORM, whole, offered()) == [("weather", arguments)]


@pytest.mark.parametrize(
    ("text", "good"),
    [
        (f"{{name:{Q}a{Q},size:1}}", True),
        (f"{{any:1,name:{Q}a{Q},size:1,under:[]}}", True),
        (f"{{size:1,name:{Q}a{Q}}}", False),
        (f"{{name:{Q}a{Q}}}", False),
        ("{}", False),
        (f"{{,name:{Q}a{Q},size:1}}", False),
        (f"{{name:{Q}a{Q},size:1,}}", False),
        (f"{{name:{Q}a{Q},size:-1}}", False),
        ("{name:1,size:1}", False),
        ("{name:a,size:1}", False),
        (f"{{name:{Q}a{Q},other:1,size:1}}", False),
        (f"{{kind:{Q}a b{Q},name:{Q}a{Q},size:1}}", True),
        (f"{{kind:{Q}a{Q},name:{Q}a{Q},size:1}}", False),
        (f"{{kind:{{b:1.5,y:{Q}z{Q}}},name:{Q}a{Q},size:1}}", True),
        (f"{{kind:4,name:{Q}a{Q},size:1}}", False),
        (f"{{name:{Q}a{Q},pair:[1],size:1}}", False),
        (f"{{name:{Q}a{Q},pair:[1,2,3,4],size:1}}", False),
        (f"{{name:{Q}a{Q},notes:{{a:true,b:null}},size:1}}", True),
        (f"{{name:{Q}a{Q},notes:{{a:1}},size:1}}", False),
        (f"{{name:{Q}a{Q},size:1,under:[{{name:{Q}b{Q},size:2}}]}}", True),
        (f"{{name:{Q}a{Q},size:1,under:[{{name:{Q}b{Q}}}]}}", False),
        (f"{{either:{Q}x{Q},name:{Q}a{Q},size:1}}", True),
        (f"{{either:1.5,name:{Q}a{Q},size:1}}", False),
    ],
)
def test_what_is_not_by_the_schema_does_not_fit(text: str, good: bool) -> None:
    assert fit(TREES, text) is good


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "object"}, ["{}", f"{{a b:1,b:[{Q}{Q},{{}}],{Q}c:d{Q}:null}}"], ["{a}", "{a :1}", "[1]"]),
        ({"properties": {}}, ["{}", "{a:1}"], []),
        ({"properties": {}, "additionalProperties": False}, ["{}"], ["{a:1}"]),
        ({"properties": {"a": False, "b": True}}, ["{}", "{b:[1]}"], ["{a:1}", "{a:1,b:1}"]),
        ({"required": ["a"]}, ["{a:1}"], ["{}", "{b:1}"]),
        ({"properties": {"a": {"items": {"type": "null"}, "maxItems": 0}}}, ["{a:[]}", "{}"], ["{a:[null]}"]),
        ({"properties": {"a": {"minItems": 1}}, "required": ["a"]}, ["{a:[1]}", "{a:[{},2,3]}"], ["{a:[]}", "{a:1}"]),
        ({"properties": {"a": {"type": "string", "nullable": True}}}, ["{a:null}", f"{{a:{Q}null{Q}}}"], ["{a:true}"]),
        ({"properties": {"a": {"const": "b"}}}, [f"{{a:{Q}b{Q}}}"], [f"{{a:{Q}c{Q}}}", "{a:b}"]),
        ({"properties": {"a": {"minimum": 3}}}, ["{a:3.5}"], ["{a:2}"]),
        ({"properties": {"a": {"pattern": "^b$"}}}, [f"{{a:{Q}c{Q}}}"], ["{a:1}"]),  # a string is any text
        ({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"$ref": "#/definitions/b"}],
          "definitions": {"b": {"properties": {"b": {"type": "null"}}, "required": ["b"]}}},
         ["{a:1,b:null}"], ["{a:1}", "{b:null}"]),
        ({"properties": {"a": {"$ref": "#/$defs/a", "minimum": 5}}, "$defs": {"a": {"type": "integer"}}},
         ["{a:5}"], ["{a:4}", "{a:5.5}"]),
        ({"properties": {"a": {"$ref": "#/$defs/x~1y"}}, "$defs": {"x/y": {"oneOf": [{"const": 1}, {"const": 2}]}}},
         ["{a:2}"], ["{a:3}"]),
        ({"properties": {"B": {"const": 1}, "a": {"const": 2}}}, ["{a:2,B:1}"], ["{B:1,a:2}"]),
    ],
)  # fmt: skip
def test_the_words_of_a_schema(schema: Any, good: list[str], bad: list[str]) -> None:
    grammar = held_to({"type": "object", **schema}, strict=True)
    assert [fit(grammar, text) for text in good] == [True] * len(good)
    assert [fit(grammar, text) for text in bad] == [False] * len(bad)


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"properties": {"a": {"not": {}}}}, "tools: no call of this model can be held to the word 'not' of a schema"),
        ({"if": {}, "else": {}}, "tools: no call of this model can be held to the word 'else' of a schema"),
        (
            {"properties": {"a": {"type": "strin"}}},
            "tools: the type 'strin' in a schema is not known, expected string,",
        ),
        ({"properties": {"a": {"$ref": "#/no"}}}, "tools: the schema refers to '#/no', expected a place in itself"),
        ({"properties": {"a": {"$ref": "http://x/#"}}}, "tools: the schema refers to 'http://x/#', expected a place"),
        ({"properties": {"a": {"$ref": "#", "not": {}}}}, "tools: no call of this model can be held to the word 'not'"),
        ({"properties": {"a": {"enum": []}}}, "tools: a schema leaves nothing to choose from"),
        ({"allOf": [{"$ref": "#"}]}, "tools: is nested too deep"),
    ],
)
def test_what_nothing_can_be_held_to_is_named(schema: Any, reason: str) -> None:
    with pytest.raises(HttpRefused, match=f"^{reason}"):
        held_to({"type": "object", **schema}, strict=True)


def test_tools_that_are_not_strict_may_have_such_words() -> None:
    odd = {"type": "object", "properties": {"a": {"type": "integer", "not": {"const": 1}, "uniqueItems": True}}}
    assert fit(held_to(odd), "{a:1}") and not fit(held_to(odd), "{a:true}")


def test_a_vocabulary_without_the_mark_of_strings() -> None:
    rules = BracedRules(lambda mark: '"' + mark.replace('"', '\\"') + '"')
    start = rules.arguments({"properties": {"a": {"type": "string"}, "b": {"const": "c"}}, "required": ["a", "b"]})
    grammar = Grammar("lark", "\n".join([f"start: {start}", *rules.rules]))
    spelled = f'a:{Q}x "y{Q},b:{Q}c{Q}}}'.encode()
    assert fits(grammar, "", [*spelled]) and not fits(grammar, "", [*spelled.replace(b"c", b"d")])
