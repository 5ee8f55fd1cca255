"""The arguments of a call: the JSON of an object, that can be sent on."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.http.requests.arguments import read_arguments, read_next, read_value

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_any_object(arguments: dict[str, Any]) -> None:
    assert read_arguments(json.dumps(arguments)) == arguments


@pytest.mark.parametrize(
    "text",
    ["", "[]", "5", "null", "{", "{}{}", '{"x": NaN}', '{"x": Infinity}', '{"x": -1e999}', "[" * 100_000,
     '{"x": ' + "[" * 64 + "]" * 64 + "}", '{"x": ' + "[" * 970 + "]" * 970 + "}"],
)  # fmt: skip
def test_what_is_none(text: str) -> None:
    with pytest.raises(ValueError):
        read_arguments(text)


def test_values_one_after_the_other() -> None:
    assert read_next('{} [1, "a\n"]', 3) == ([1, "a\n"], 12) and read_value(" 1.5 ") == 1.5
    for text, start in (("", 0), ("{}", 1), ("[" * 100_000, 0)):
        with pytest.raises(ValueError):
            read_next(text, start)
