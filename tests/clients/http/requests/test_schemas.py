"""The types that a JSON schema allows for an argument."""

from typing import Any

import pytest
from paceline.clients.http.requests.schemas import types_of, words_of


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, {"string"}),
        ({"type": ["integer", "null", 5]}, {"integer", "null"}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, {"string", "null"}),
        ({"oneOf": [{"type": "string"}, 5, {"type": ["null", 7]}], "anyOf": 3}, {"string", "null"}),
        ({"allOf": [{"type": "object"}]}, {"object"}),
        ({"enum": ["1", "2", None, 3]}, {"string", "null"}),
        ({"enum": [1, 2]}, set()),
        ({"const": "x"}, {"string"}),
        ({"const": None}, {"null"}),
        ({"$ref": "#/$defs/Name"}, {"string"}),
        ({"anyOf": [{"$ref": "#/$defs/Name"}, {"type": "null"}]}, {"string", "null"}),
        ({"$ref": "#/$defs/none/x"}, set()),
        ({"$ref": "https://example.org/x"}, set()),
        ({"$ref": 5}, set()),
        ({"$ref": "#/properties/x"}, set()),
        ({}, set()),
        (5, set()),
        (None, set()),
    ],
)
def test_types_of_an_argument(schema: Any, types: set[str]) -> None:
    root = {"type": "object", "properties": {"x": schema}, "$defs": {"Name": {"type": "string"}}}
    assert types_of(root, "x") == types and types_of(root, "y") == set()


@pytest.mark.parametrize("schema", [None, 5, {}, {"properties": [1]}, {"properties": None}])
def test_a_schema_may_say_nothing(schema: Any) -> None:
    assert types_of(schema, "x") == set()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"enum": ["a", "b"]}, ["a", "b"]),
        ({"const": "a"}, ["a"]),
        ({"type": "string", "enum": ["a", None]}, ["a", "null"]),
        ({"anyOf": [{"const": "a"}, {"type": "null"}]}, ["a", "null"]),
        ({"oneOf": [{"$ref": "#/$defs/E"}, {"enum": ["c"]}]}, ["a", "b", "c"]),
        ({"$ref": "#/$defs/E"}, ["a", "b"]),
        ({"anyOf": [{"const": "a"}, {"type": "string"}]}, []),
        ({"enum": ["a", 5]}, []),
        ({"enum": [""]}, []),
        ({"enum": []}, []),
        ({"type": "string"}, []),
        (True, []),
    ],
)
def test_the_words_that_an_argument_may_be(schema: Any, words: list[str]) -> None:
    whole = {"properties": {"a": schema}, "$defs": {"E": {"enum": ["a", "b"]}}}
    assert words_of(whole, "a") == words
    assert words_of(5, "a") == words_of({"properties": 5}, "a") == []
