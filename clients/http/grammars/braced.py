"""The arguments of a call as Gemma 4 writes them (speech/braced.py), as rules of a grammar by the tool's schema.

Names come in alphabetical order, in which the model is told of them, and without blanks, as its template writes earlier
calls. A string is one of the words that the schema lists, or else any text up to its mark; numbers are JSON by their
schema. A schema that does not list its properties leaves all of them open."""

from collections.abc import Callable, Iterable, Mapping
from json import dumps
from typing import Any, Final

from ....protocol import Grammar
from ..requests.schemas import both, types_within
from ..speech.braced import NAME, QUOTE

ANY: Final = "/(?s:.*)/"
ANY_NAME: Final = r'/[^\s:,{}\[\]<>"\/\\]+( [^\s:,{}\[\]<>"\/\\]+)*/'
END: Final = '"}"'
TYPES: Final = ("string", "number", "integer", "boolean", "null", "array", "object")
BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
HELD: Final = {
    *("type", "nullable", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", *BOUNDS),
    *("properties", "required", "additionalProperties", "items", "minItems", "maxItems"),
}
SAID: Final = {  # what asks for nothing, or for something of a string
    *("title", "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "$comment"),
    *("$schema", "$id", "$anchor", "$defs", "definitions", "x-guidance"),
    *("pattern", "format", "minLength", "maxLength", "contentEncoding", "contentMediaType"),
}
Mark = Callable[[str], str]
Schema = Mapping[str, Any]


class BracedRules:
    """Collects the `rules` that the arguments of all tools need."""

    def __init__(self, mark: Mark) -> None:
        self._quote = mark(QUOTE)
        self.rules: list[str] = []
        self._shared: set[str] = set()
        self._count = 0
        self._root: Schema = {}
        self._places: dict[str, str] = {}  # the rules of what the root's references name

    def arguments(self, schema: Schema) -> str:
        """What stands behind the first brace, with the last. Raises ValueError for a word that nothing can be held
        to."""
        self._root, self._places = schema, {}
        return self._members(self._whole(schema))

    def _value(self, schema: Any) -> str:
        """An expression for a value by this schema."""
        if not isinstance(schema, Mapping):
            return self._anything()
        if isinstance(place := schema.get("$ref"), str) and not HELD & (schema.keys() - {"$ref"}):
            return self._referred(place)
        schema = self._whole(schema)
        for word in ("anyOf", "oneOf"):
            if isinstance(ways := schema.get(word), list):
                rest = {key: value for key, value in schema.items() if key != word}
                return _one_of(self._value(both(rest, way)) for way in ways if isinstance(way, Mapping))
        if "const" in schema:
            return self._written(schema["const"])
        if isinstance(values := schema.get("enum"), list):
            return _one_of(map(self._written, values))
        types = types_within(schema)
        return _one_of(self._typed(one, schema) for one in types) if types else self._anything()

    def _typed(self, kind: Any, schema: Schema) -> str:
        match kind:
            case "string":
                return self._text()
            case "array":
                return self._list(schema)
            case "object":
                return f'"{{" {self._members(schema)}'
            case "number" | "integer" | "boolean" | "null":
                return Grammar.json({"type": kind} | {word: schema[word] for word in BOUNDS if word in schema}).rule
            case _:
                raise ValueError(f"the type {kind!r} in a schema is not known, expected {', '.join(TYPES)}")

    def _members(self, schema: Schema) -> str:
        """What stands behind the brace that opens an object."""
        properties, required = schema.get("properties"), schema.get("required")
        more = schema.get("additionalProperties", True)
        needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
        listed = dict.fromkeys(needed, more) | (dict(properties) if isinstance(properties, Mapping) else {})
        if not listed and more is not False:
            return self._pairs(self._named(self._value(more)))
        ways, rest = [END], END  # how it may begin, and what follows behind something
        for name in sorted(listed, key=lambda name: (name.lower(), name), reverse=True):
            if listed[name] is False:
                continue
            member = f"{self._name(name)} {self._named(self._value(listed[name]))}"
            ways = [f"{member} {rest}", *([] if name in needed else ways)]
            rest = self._named(f'"," {member} {rest}' if name in needed else f'("," {member})? {rest}')
        return self._named(" | ".join(ways))

    def _pairs(self, value: str) -> str:
        pair = self._named(f'({ANY_NAME} | {self._text()}) ":" {value}')
        return f'({pair} ("," {pair})*)? {END}'

    def _list(self, schema: Schema) -> str:
        least, most = (one if isinstance(one := schema.get(word), int) else None for word in ("minItems", "maxItems"))
        value = self._named(self._value(schema.get("items")))
        if most == 0:
            return '"[]"'
        bounds = f"{max(0, (least or 0) - 1)},{'' if most is None else most - 1}"
        items = f'{value} ("," {value}){{{bounds}}}'
        return f'"[" {items} "]"' if least else f'"[" ({items})? "]"'

    def _written(self, value: Any) -> str:
        """One value, as it has to be written."""
        match value:
            case str():
                return f"{self._quote} {dumps(value) if value else ''} {self._quote}"
            case dict():
                members = (f"{self._name(name)} {self._written(value[name])}" for name in sorted(value))
                return f'"{{" {_separated(members)} {END}'
            case list():
                return f'"[" {_separated(map(self._written, value))} "]"'
            case _:
                return dumps(dumps(value, allow_nan=False))

    def _name(self, name: str) -> str:
        return dumps(f"{name}:") if NAME.fullmatch(name) else f'{self._written(name)} ":"'

    def _text(self) -> str:
        """Any string."""
        if self._quote.startswith("<"):
            return f"({self._quote} {ANY} {self._quote})"
        self._share("text[lazy]", lambda: f"{ANY} {self._quote}")
        return f"({self._quote} text)"

    def _anything(self) -> str:
        def whole() -> str:
            scalar = Grammar.json({"type": ["number", "boolean", "null"]}).rule
            items = '(anything ("," anything)*)?'
            return f'{self._text()} | {scalar} | "[" {items} "]" | "{{" {self._pairs("anything")}'

        self._share("anything", whole)
        return "anything"

    def _share(self, name: str, rule: Callable[[], str]) -> None:
        """A rule that is there once."""
        if name not in self._shared:
            self._shared.add(name)
            self.rules.append(f"{name}: {rule()}")

    def _named(self, rule: str) -> str:
        self._count += 1
        self.rules.append(f"braced_{self._count}: {rule}")
        return f"braced_{self._count}"

    def _referred(self, place: str) -> str:
        if place not in self._places:
            self._count += 1
            self._places[place] = name = f"braced_{self._count}"
            self.rules.append(f"{name}: {self._value(self._found(place))}")
        return self._places[place]

    def _found(self, place: str) -> Any:
        """What a reference names. Raises ValueError."""
        found: Any = self._root
        for name in place.removeprefix("#").split("/")[1:]:
            name = name.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        if not place.startswith("#") or found is None:
            raise ValueError(f"the schema refers to {place!r}, expected a place in itself")
        return found

    def _whole(self, schema: Schema) -> Schema:
        """With what it refers to and what it is made of. Raises ValueError."""
        parts = schema.get("allOf")
        rest: Schema = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        if isinstance(place := schema.get("$ref"), str) and isinstance(found := self._found(place), Mapping):
            rest = both(self._whole(found), rest)
        for part in parts if isinstance(parts, list) else ():
            rest = both(rest, self._whole(part) if isinstance(part, Mapping) else {})
        others = rest.keys() - HELD - SAID
        options = self._root.get("x-guidance")
        if others and not (isinstance(options, Mapping) and options.get("lenient")):
            raise ValueError(f"no call of this model can be held to the word {min(others)!r} of a schema")
        return rest


def _one_of(ways: Iterable[str]) -> str:
    found = [*ways]
    if not found:
        raise ValueError("a schema leaves nothing to choose from")
    return f"({' | '.join(found)})"


def _separated(parts: Iterable[str]) -> str:
    return ' "," '.join(parts)
