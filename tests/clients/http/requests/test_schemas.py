"""The types that a JSON schema allows for an argument."""

from typing import Any

import pytest
from paceline.clients.http.requests.schemas import types_of


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
