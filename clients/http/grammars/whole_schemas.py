"""The schemas of the arguments of a request's tools, each with what it refers to and what it is made of.

A short schema can ask for much: what refers twice to what refers twice doubles with each link. So what a place is made
of is found once, and the parts that are looked at are counted, each as often as that happens."""

from collections.abc import Mapping
from typing import Any, Final

from ..requests.fields import shown
from ..requests.schemas import both

MOST_PARTS: Final = 1 << 17  # about as many can be looked at in a quarter of a second
BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
HELD: Final = {
    *("type", "nullable", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", *BOUNDS),
    *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
}
TOLD: Final = {  # what asks for nothing
    *("title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment"),
    *("$schema", "$id", "$anchor", "$defs", "definitions", "x-guidance"),
}
SAID: Final = TOLD | {  # or for something of a string
    *("pattern", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType"),
}
Schema = Mapping[str, Any]


class WholeSchemas:
    """Of one tool after the other; `parts` counts those of all."""

    def __init__(self) -> None:
        self.parts = 0
        self._root: Schema = {}
        self._lenient = False
        self._places: dict[str, Schema] = {}

    def begin(self, root: Schema) -> None:
        """The schema that references are places of."""
        options = root.get("x-guidance")
        self._root, self._places = root, {}
        self._lenient = isinstance(options, Mapping) and bool(options.get("lenient"))

    def count(self, parts: int) -> None:
        """Raises ValueError if these are too many."""
        self.parts += parts
        if self.parts > MOST_PARTS:
            raise ValueError(
                f"their schemas have too many parts, expected at most {MOST_PARTS}, each as often as it is referred to"
            )

    def whole(self, schema: Schema) -> Schema:
        """Raises ValueError, also for a word that nothing can be held to."""
        self.count(1 + len(schema))
        parts = schema.get("allOf")
        rest: Schema = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        if isinstance(place := schema.get("$ref"), str):
            rest = self.joined(self._made(place), rest)
        for part in parts if isinstance(parts, list) else ():
            rest = self.joined(rest, self.whole(part) if isinstance(part, Mapping) else {})
        if not self._lenient and (others := rest.keys() - HELD - SAID):
            raise ValueError(f"no call of this model can be held to the word {shown(min(others))} of a schema")
        return rest

    def joined(self, one: Schema, other: Schema) -> Schema:
        """What holds to both. Raises ValueError."""
        lists = (schema.get(word) for word in ("properties", "required") for schema in (one, other))
        self.count(len(one) + len(other) + sum(len(each) for each in lists if isinstance(each, dict | list)))
        return both(one, other)

    def found(self, place: str) -> Any:
        """What a reference names. Raises ValueError."""
        found: Any = self._root
        for name in place.removeprefix("#").split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        if not place.startswith("#") or found is None:
            raise ValueError(f"the schema refers to {shown(place)}, expected a place in itself")
        return found

    def _made(self, place: str) -> Schema:
        """All of what a reference names; nothing if it is no schema with words."""
        if place not in self._places:
            found = self.found(place)
            self._places[place] = self.whole(found) if isinstance(found, Mapping) else {}
        return self._places[place]
