"""Grammars as parts of a rule in Lark's notation."""

from __future__ import annotations

import json

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from llguidance import LLMatcher, regex_to_lark
from paceline.protocol import Grammar
from paceline.protocol.output_grammar import BLANKS


@given(st.text(st.sampled_from("ab/\\[]().*+n d") | st.characters(exclude_categories=["Cs", "Cc"]), max_size=12))
def test_a_regular_expression_between_slashes(text: str) -> None:
    """As the library that reads it writes them; one that ends within an escape is none."""
    assume((len(text) - len(text.rstrip("\\"))) % 2 == 0)
    assert Grammar("regex", text).rule == f"/{regex_to_lark(text, '')}/"


def test_a_line_end_in_a_regular_expression() -> None:
    assert Grammar("regex", "a\nb").rule == r"/a\nb/"
    assert Grammar("regex", "a\\\nb").rule == r"/a\nb/"
    assert LLMatcher.validate_grammar(f"start: {Grammar('regex', 'a' + chr(10) + 'b').rule}") == ""


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ({"type": "object"}, BLANKS),
        ({"x-guidance": {"lenient": True}}, BLANKS),
        ({"x-guidance": {"whitespace_pattern": " "}}, " "),
    ],
)
def test_a_schema_bounds_its_blanks(schema: dict[str, object], pattern: str) -> None:
    word, _, text = Grammar.json(schema).rule.partition(" ")
    found = json.loads(text)
    assert word == "%json" and found.pop("x-guidance") | {"whitespace_pattern": pattern} == (
        schema.get("x-guidance", {}) | {"whitespace_pattern": pattern}  # type: ignore[operator]
    )


@pytest.mark.parametrize("schema", [True, {"x-guidance": 3}])
def test_what_has_no_place_for_it_stays(schema: object) -> None:
    assert Grammar.json(schema).rule == f"%json {json.dumps(schema)}"
