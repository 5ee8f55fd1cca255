"""How much of a schema that is not strict a call or an answer is held to: all, or what can be used of it."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from .schemas import PATTERN, followed

JSON_TYPES: Final = frozenset(("object", "array", "string", "number", "integer", "boolean", "null"))
DATA: Final = ("enum", "const", "default", "examples")  # whose values are no schemas
OF_NAMES: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")  # schemas by any name
LEAST, HUGE = 1e-9, 1e15  # between which numbers have few enough digits for a grammar
BOUNDS: Final = (
    ("minimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "maximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
)
NUMBERS: Final = frozenset(("multipleOf", *(word for pair in BOUNDS for word in pair)))


class Hold(Enum):
    """The next one is for a schema that the one before cannot use."""

    GIVEN = "all that anything can be held to"
    USABLE = "without what most often cannot be used"
    TYPE = "that it is an object"


def held(schema: Mapping[str, Any], hold: Hold) -> Mapping[str, Any]:
    """What an object is held to."""
    if hold is Hold.TYPE:
        return {"type": "object"}
    return lenient(schema if hold is Hold.GIVEN else usable(schema))


def lenient(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """What nothing can be held to is left out of it, unless it says otherwise."""
    options = schema.get("x-guidance", {})
    return {**schema, "x-guidance": {"lenient": True, **options}} if isinstance(options, dict) else schema


def loosened(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without patterns, of which few languages know the same, and nulls. What is a mistake stays, to be refused."""
    loose: Mapping[str, Any] = _each(schema, _without_patterns)
    return loose


def usable(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without mistakes either: references to nowhere, types that JSON has not, choices from nothing, and bounds that
    are huge, tiny or leave nothing between them."""
    rest: Mapping[str, Any] = _each(loosened(schema), lambda one: _without_mistakes(one, schema))
    return rest


def _each(schema: Any, change: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Any:
    """`change`d: every schema within, but not what is data."""
    if isinstance(schema, list):
        return [_each(one, change) for one in schema]
    if not isinstance(schema, dict):
        return schema
    changed: dict[str, Any] = {}
    for word, value in change(schema).items():
        if word in OF_NAMES and isinstance(value, dict):
            changed[word] = {name: _each(one, change) for name, one in value.items()}
        else:
            changed[word] = value if word in DATA else _each(value, change)
    return changed


def _without_patterns(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return {
        key: value
        for key, value in schema.items()
        if value is not None and not (key == PATTERN and isinstance(value, str))
    }


def _without_mistakes(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    crossed = {word for pair in BOUNDS if _crossed(*(schema.get(word) for word in pair)) for word in pair}
    return {key: value for key, value in schema.items() if key not in crossed and _can_be_used(key, value, root)}


def _can_be_used(key: str, value: Any, root: Mapping[str, Any]) -> bool:
    match key, value:
        case "$ref", str():
            return value == "#" or (value.startswith("#/") and bool(followed({key: value}, root)))
        case "type", str():
            return value in JSON_TYPES
        case "type", list():
            return all(isinstance(one, str) and one in JSON_TYPES for one in value)
        case "enum", list():
            return bool(value)
    return key not in NUMBERS or not isinstance(value, int | float) or value == 0 or LEAST < abs(value) < HUGE


def _crossed(low: Any, high: Any) -> bool:
    return isinstance(low, int | float) and isinstance(high, int | float) and low > high
