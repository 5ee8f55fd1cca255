"""Short schemas that ask for much, for arguments as Gemma 4 writes them: their work is shared, or refused soon."""

from collections.abc import Callable
from time import thread_time
from typing import Any

import pytest
from paceline.clients.http.grammars.braced import BracedRules
from paceline.clients.http.refused import HttpRefused

from .test_braced import fit, held_to


def linked(links: int, link: Callable[[Any, int], Any], last: Any) -> dict[str, Any]:
    """An argument `a` by the first of these schemas, each of which refers to the next."""
    places = {f"a{at}": link({"$ref": f"#/$defs/a{at + 1}"}, at) for at in range(links)}
    return {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a0"}},
        "required": ["a"],
        "additionalProperties": False,
        "$defs": places | {f"a{links}": last},
    }


def nested(links: int, more: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(links):
        schema = {"properties": {"a": schema}, **more}
    return schema


def made(schema: Any) -> BracedRules:
    rules = BracedRules(lambda mark: "<[1]>")
    rules.arguments(schema)
    return rules


NUMBER = {"type": "integer"}
DOUBLED: dict[str, Any] = {
    "ways": linked(60, lambda ref, _: {"anyOf": [{**ref, "nullable": True}] * 2}, NUMBER),
    "parts": linked(60, lambda ref, _: {"allOf": [ref, ref]}, NUMBER),
    "ways of one part": linked(60, lambda ref, _: {"oneOf": [{"allOf": [ref]}] * 2}, NUMBER),
    "parts of ways": linked(60, lambda ref, _: {"anyOf": [{"allOf": [ref, {}]}] * 2}, NUMBER),
    "required": linked(60, lambda ref, at: {"allOf": [ref, ref], "required": [f"r{at}"]}, {"required": ["a", "b"]}),
    "nested": nested(60, {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
}


@pytest.mark.parametrize("schema", DOUBLED.values(), ids=DOUBLED.keys())
def test_what_is_referred_to_twice_is_written_once(schema: Any) -> None:
    """Else the work would double with each of 60 links."""
    rules = made(schema)
    assert len("".join(rules.rules)) < 20_000
    assert rules.schemas.parts < 20_000


@pytest.mark.parametrize("form", ["ways", "parts", "ways of one part", "parts of ways"])
def test_the_last_of_a_chain_of_references_holds(form: str) -> None:
    grammar = held_to(DOUBLED[form], strict=True)
    assert fit(grammar, "{a:1}") and not fit(grammar, "{a:true}")
    assert fit(grammar, "{a:null}") is (form == "ways")


MANY = 30_000
LISTED = {f"p{number}": True for number in range(MANY)}
CHARACTERS = "tools: their schemas need too many rules, expected at most 1048576 characters$"
PARTS = "tools: their schemas have too many parts, expected at most 131072, each as often as it is referred to$"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (  # two to the power of 60 different ones
            linked(60, lambda ref, at: {"anyOf": [{**ref, "required": [f"{way}{at}"]} for way in "xy"]}, {}),
            CHARACTERS,
        ),
        ({"properties": LISTED}, CHARACTERS),
        ({"properties": LISTED, "required": [*LISTED]}, CHARACTERS),
        ({"properties": {name: {"minimum": number} for number, name in enumerate(LISTED)}}, CHARACTERS),
        ({"properties": {"a": {"enum": ["x" * 40] * 10 + [*map(str, range(4 * MANY))]}}}, PARTS),
        ({"properties": {"a": {"const": "x" * 1_100_000}}}, CHARACTERS),
        (
            {
                "properties": {"a": {"anyOf": [{"$ref": "#/$defs/a", "minimum": number} for number in range(MANY)]}},
                "$defs": {"a": {"const": "x" * 100_000}},
            },
            CHARACTERS,
        ),
        ({"properties": {"a": {"anyOf": [{"type": "null"}] * MANY, "properties": LISTED}}}, PARTS),
        ({"properties": {"a": {"anyOf": [{}] * 1000, "oneOf": [{"const": at} for at in range(1000)]}}}, PARTS),
        ({"allOf": [{"properties": {name: True}} for name in LISTED]}, PARTS),
        (nested(500, {}), "tools: is nested too deep"),
        ({"properties": {"a": linked(500, lambda ref, _: {"items": ref}, {})}}, "tools: the schema refers to"),
        (linked(500, lambda ref, _: {"items": ref}, {}), "tools: is nested too deep"),
        (linked(500, lambda ref, _: {"allOf": [ref, {}]}, {}), "tools: is nested too deep"),
        ({"allOf": [{"$ref": "#"}] * 1000, "properties": LISTED}, "tools: is nested too deep"),
        ({"properties": {"a": {"minimum": float("inf")}}}, "tools: Out of range float values"),
    ],
)
def test_schemas_that_ask_for_too_much_are_refused_soon(schema: Any, reason: str) -> None:
    """Most of them took seconds, minutes or gigabytes; it is the server's loop that makes grammars."""
    begun = thread_time()
    with pytest.raises(HttpRefused, match=f"^{reason}"):
        held_to({"type": "object", **schema}, strict=True)
    assert thread_time() - begun < 2


def test_what_is_long_but_asks_for_little() -> None:
    """A type that is named again, and bounds of a list: the grammar counts, whatever they are."""
    schema = {"type": ["object"] * MANY, "properties": {"a": {"items": {"maxItems": 10**9}, "minItems": 10**9}}}
    assert len("".join(made({"properties": {"a": schema}}).rules)) < 2000
    assert made({"properties": {"a": {"enum": [1] * MANY}}}).rules[0] == 'braced_1: ("1")'
