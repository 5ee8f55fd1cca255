"""What a JSON schema says of the types of an argument, as far as the bare text of a call needs to know."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

CHOICES: Final = ("anyOf", "oneOf", "allOf")
PATTERN: Final = "pattern"
NO_TYPES: Final = frozenset((*CHOICES, "$ref", "enum", "const"))  # what else a schema may be made of
WORDS_OF_TYPES: Final = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "minItems", "maxItems"),
    "string": (PATTERN, "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}


def types_of(schema: Any, argument: str) -> set[str]:
    """Those that are allowed for this property of an object; none if it does not say."""
    properties = _object(_object(schema).get("properties"))
    return {one for way in _ways(properties.get(argument), schema) for one in _types(way)}


def choices_of(schema: Any, argument: str) -> list[Mapping[str, Any]]:
    """The schemas that this property of an object may be one of; none if it has to be several at once."""
    first, *rest = _ways(_object(_object(schema).get("properties")).get(argument), schema)
    if len(_list(first.get("allOf"))) > 1:
        return []
    return rest if any(choice in first for choice in CHOICES) else [first]


def constants_of(schema: Any, argument: str) -> set[str]:
    """The types of this property of an object if it may only be true, false or null; else none."""
    kinds: set[str] = set()
    for one in choices_of(schema, argument):
        named = _list(one.get("type")) or [one.get("type")]
        if not all(kind in ("boolean", "null") for kind in named) or not NO_TYPES.isdisjoint(one):
            return set()
        kinds.update(named)
    return kinds


def words_of(schema: Any, argument: str) -> list[str]:
    """What this property of an object may be, if it may only be one of some words (and null); else none."""
    ways = list(_ways(_object(_object(schema).get("properties")).get(argument), schema))
    leaves = [one for one in ways if not any(choice in one for choice in CHOICES)]
    words: dict[str, None] = {}
    for one in leaves:
        values = [one["const"]] if "const" in one else _list(one.get("enum"))
        if not values and one.get("type") == "null":
            values = [None]
        if not values or not all(value is None or (isinstance(value, str) and value) for value in values):
            return []
        words |= {"null" if value is None else value: None for value in values}
    return [*words]


def both(one: Mapping[str, Any], other: Mapping[str, Any]) -> Mapping[str, Any]:
    """What holds to either, as one schema: of the same word it is the other's, but all of both are properties and
    required."""
    joined: dict[str, Any] = {**one, **other}
    if "properties" in one and "properties" in other:
        joined["properties"] = {**_object(one["properties"]), **_object(other["properties"])}
    if "required" in one and "required" in other:
        names = (name for name in (*_list(one["required"]), *_list(other["required"])) if isinstance(name, str))
        joined["required"] = [*dict.fromkeys(names)]
    return joined


def types_within(schema: Mapping[str, Any]) -> list[Any]:
    """Those that a schema names, or that its other words are for; none if it says nothing of them."""
    named = schema.get("type")
    if named is None:
        found = [kind for kind, words in WORDS_OF_TYPES.items() if any(word in schema for word in words)]
    else:
        found = _list(named) or [named]
    return [*found, "null"] if found and schema.get("nullable") is True and "null" not in found else found


def _ways(value: Any, root: Any) -> Iterator[Mapping[str, Any]]:
    """The schema itself and those that it chooses from, all followed to where they refer."""
    own = followed(value, root)
    yield own
    for choice in CHOICES:
        for one in _list(own.get(choice)):
            yield followed(one, root)


def followed(value: Any, root: Any) -> Mapping[str, Any]:
    """A reference within the schema, once: what it refers to."""
    schema = _object(value)
    place = schema.get("$ref")
    if not isinstance(place, str) or not place.startswith("#/"):
        return schema
    found = root
    for name in place.removeprefix("#/").split("/"):
        found = _object(found).get(name)
    return _object(found)


def _types(schema: Mapping[str, Any]) -> Iterator[str]:
    named = schema.get("type")
    if isinstance(named, str):
        yield named
    yield from (one for one in _list(named) if isinstance(one, str))
    for value in (*_list(schema.get("enum")), *([schema["const"]] if "const" in schema else [])):
        if isinstance(value, str):
            yield "string"
        elif value is None:
            yield "null"


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
