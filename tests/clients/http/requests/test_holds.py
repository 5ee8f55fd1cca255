"""How much of a schema an answer is held to."""

from typing import Any

import pytest
from paceline.clients.http.requests.holds import Hold, held, lenient, loosened, usable


def test_a_loosened_schema() -> None:
    odd = {
        "required": None,
        "properties": {
            "pattern": {"type": "string", "pattern": "^(?!a)"},
            "list": {"type": ["string", "any"], "items": [{"type": "integer", "enum": None}]},
        },
    }
    assert loosened(odd) == {
        "properties": {
            "pattern": {"type": "string"},
            "list": {"type": ["string", "any"], "items": [{"type": "integer"}]},
        }
    }


def test_a_lenient_schema() -> None:
    assert lenient({"not": {}}) == {"not": {}, "x-guidance": {"lenient": True}}
    assert lenient({"x-guidance": {"lenient": False}}) == {"x-guidance": {"lenient": False}}
    assert lenient({"x-guidance": 5}) == {"x-guidance": 5}


@pytest.mark.parametrize(
    ("schema", "left"),
    [
        ({"type": "file"}, {}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": ["string", 5]}, {}),
        ({"enum": [], "type": "string"}, {"type": "string"}),
        ({"enum": [None, "a"]}, {"enum": [None, "a"]}),
        ({"minimum": 5, "maximum": 1}, {}),
        ({"exclusiveMinimum": 5, "maximum": 1, "minimum": 0}, {"minimum": 0}),
        ({"minLength": 1, "maxLength": 1}, {"minLength": 1, "maxLength": 1}),
        ({"minimum": -1.797e308, "maximum": 4}, {"maximum": 4}),
        ({"multipleOf": 1e-300, "minimum": 0}, {"minimum": 0}),
        ({"exclusiveMinimum": True}, {"exclusiveMinimum": True}),
        ({"$ref": "https://example.com/other.json"}, {}),
        ({"$ref": "#/$defs/none"}, {}),
        ({"$ref": "#"}, {"$ref": "#"}),
        ({"enum": [{"type": "card", "pattern": "x"}, {"type": None}]}, None),
        ({"const": {"a": None, "type": "file"}, "default": {"enum": []}}, None),
        (
            {"properties": {"const": {"type": "file"}, "default": {"pattern": "x"}}},
            {"properties": {"const": {}, "default": {}}},
        ),
        ({"anyOf": [{"type": "file"}, {"const": {"type": "file"}}]}, {"anyOf": [{}, {"const": {"type": "file"}}]}),
        ({"properties": {"pattern": {}, "$ref": {}, "type": {}, "enum": {}, "minimum": {}}}, None),
        ({"$defs": {"a": {"type": "string"}}, "properties": {"b": {"$ref": "#/$defs/a"}}}, None),
    ],
)
def test_what_cannot_be_used_goes_and_the_rest_stays(schema: dict[str, Any], left: dict[str, Any] | None) -> None:
    assert usable(schema) == (schema if left is None else left)
    within = {"type": "object", "properties": {"x": schema}, "$defs": schema.get("$defs", {})}
    assert usable(within)["properties"]["x"] == (schema if left is None else left)


def test_there_are_three_ways_to_hold_to_a_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)"}}}
    assert held(schema, Hold.GIVEN) == lenient(schema)
    assert held(schema, Hold.USABLE) == lenient({"type": "object", "properties": {"a": {"type": "string"}}})
    assert held(schema, Hold.TYPE) == {"type": "object"}
