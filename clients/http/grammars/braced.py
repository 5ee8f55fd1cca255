"""The arguments of a call as Gemma 4 writes them (speech/braced.py), as rules of a grammar by the tool's schema.

Names come in alphabetical order, in which the model is told of them, and without blanks, as its template writes earlier
calls. A string is one of the words that the schema lists, or else any text up to its mark; numbers are JSON by their
schema. A schema that does not list its properties leaves all of them open."""

from collections.abc import Callable, Iterable, Mapping
from json import dumps
from typing import Any, Final

from ....protocol import Grammar
from ..requests.fields import shown
from ..requests.schemas import types_within
from ..speech.braced import NAME, QUOTE
from .whole_schemas import BOUNDS, SAID, TOLD, WholeSchemas

ANY: Final = "/(?s:.*)/"
ANY_NAME: Final = r'/[^\s:,{}\[\]<>"\/\\]+( [^\s:,{}\[\]<>"\/\\]+)*/'
END: Final = '"}"'
TYPES: Final = ("string", "number", "integer", "boolean", "null", "array", "object")
MOST_CHARACTERS: Final = 1 << 20  # of all rules; the daemon takes fewer, and may be given looser ones then
Mark = Callable[[str], str]
Schema = Mapping[str, Any]


class BracedRules:
    """Collects the `rules` that the arguments of all tools need. There is one for each part of a schema, for each way
    of asking for what stands elsewhere, and for each kind of numbers, however often these are needed."""

    def __init__(self, mark: Mark) -> None:
        self._quote = mark(QUOTE)
        self.rules: list[str] = []
        self.schemas = WholeSchemas()
        self._characters = 0
        self._count = 0
        self._shared: set[str] = set()
        self._scalars: dict[str, str] = {}
        self._parts: dict[int, str] = {}  # of the schema of now, which keeps them alive
        self._places: dict[str, str] = {}

    def arguments(self, schema: Schema) -> str:
        """What stands behind the first brace, with the last. Raises ValueError for a word that nothing can be held
        to, and for too much."""
        self.schemas.begin(schema)
        self._parts, self._places = {}, {}
        return self._members(self.schemas.whole(schema))

    def _value(self, schema: Any) -> str:
        """An expression for a value by this schema."""
        if not isinstance(schema, Mapping):
            return self._anything()
        if isinstance(schema.get("$ref"), str) or "allOf" in schema:
            return self._elsewhere(schema)
        return self._held(self.schemas.whole(schema))

    def _elsewhere(self, schema: Schema) -> str:
        """By one that refers to others or is made of others."""
        self.schemas.count(1 + len(schema))
        parts, place = schema.get("allOf"), None if schema.keys() - SAID - {"$ref"} else schema.get("$ref")
        if isinstance(parts, list) and len(parts) == 1 and schema.keys() - TOLD == {"allOf"}:
            return self._value(parts[0])
        key = self._copied(dumps(place or {word: schema[word] for word in sorted(schema.keys() - TOLD)}))
        if key not in self._places:
            self._places[key] = name = self._next()
            asked = self._value(self.schemas.found(place)) if place else self._held(self.schemas.whole(schema))
            self._add(name, asked)
        return self._places[key]

    def _held(self, schema: Schema) -> str:
        """By one that is whole."""
        for word in ("anyOf", "oneOf"):
            if isinstance(ways := schema.get(word), list):
                rest = {key: value for key, value in schema.items() if key != word}
                joined = (self.schemas.joined(rest, way) for way in ways if isinstance(way, Mapping))
                return self._copied(_one_of(map(self._value, joined)))
        if "const" in schema:
            return self._written(schema["const"])
        if isinstance(values := schema.get("enum"), list):
            return self._copied(_one_of(map(self._written, values)))
        kinds = dict.fromkeys(map(_known, types_within(schema)))
        return self._copied(_one_of(self._typed(kind, schema) for kind in kinds)) if kinds else self._anything()

    def _typed(self, kind: str, schema: Schema) -> str:
        match kind:
            case "string":
                return self._text()
            case "array":
                return self._list(schema)
            case "object":
                return f'"{{" {self._members(schema)}'
            case _:
                return self._scalar({"type": kind} | {word: schema[word] for word in BOUNDS if word in schema})

    def _members(self, schema: Schema) -> str:
        """What stands behind the brace that opens an object."""
        properties, required = schema.get("properties"), schema.get("required")
        more = schema.get("additionalProperties", True)
        needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set[str]()
        listed = dict.fromkeys(needed, more) | (dict(properties) if isinstance(properties, Mapping) else {})
        if not listed and more is not False:
            return self._pairs(self._part(more))
        ways, rest = [END], END  # how it may begin, and what follows behind something
        for name in sorted(listed, key=lambda name: (name.lower(), name), reverse=True):
            if listed[name] is False:
                continue
            member = f"{self._name(name)} {self._part(listed[name])}"
            if name in needed:
                ways.clear()
            ways.append(f"{member} {rest}")
            rest = self._named(f'"," {member} {rest}' if name in needed else f'("," {member})? {rest}')
        return self._named(" | ".join(reversed(ways)))

    def _pairs(self, value: str) -> str:
        pair = self._named(f'({ANY_NAME} | {self._text()}) ":" {value}')
        return f'({pair} ("," {pair})*)? {END}'

    def _list(self, schema: Schema) -> str:
        least, most = (one if isinstance(one := schema.get(word), int) else None for word in ("minItems", "maxItems"))
        value = self._part(schema.get("items"))
        if most == 0:
            return '"[]"'
        bounds = f"{max(0, (least or 0) - 1)},{'' if most is None else most - 1}"
        items = f'{value} ("," {value}){{{bounds}}}'
        return f'"[" {items} "]"' if least else f'"[" ({items})? "]"'

    def _written(self, value: Any) -> str:
        """One value, as it has to be written."""
        match value:
            case str():
                return self._copied(f"{self._quote} {dumps(value) if value else ''} {self._quote}")
            case dict():
                members = (f"{self._name(name)} {self._written(value[name])}" for name in sorted(value))
                return self._copied(f'"{{" {_separated(members)} {END}')
            case list():
                return self._copied(f'"[" {_separated(map(self._written, value))} "]"')
            case _:
                return self._copied(dumps(dumps(value, allow_nan=False)))

    def _name(self, name: str) -> str:
        return dumps(f"{name}:") if NAME.fullmatch(name) else f'{self._written(name)} ":"'

    def _text(self) -> str:
        """Any string."""
        if self._quote.startswith("<"):
            return f"({self._quote} {ANY} {self._quote})"
        self._share("text[lazy]", lambda: f"{ANY} {self._quote}")
        return f"({self._quote} text)"

    def _scalar(self, schema: Schema) -> str:
        key = self._copied(dumps(schema))
        if key not in self._scalars:
            self._scalars[key] = self._named(Grammar.json(schema).rule)
        return self._scalars[key]

    def _anything(self) -> str:
        def whole() -> str:
            scalar = Grammar.json({"type": ["number", "boolean", "null"]}).rule
            items = '(anything ("," anything)*)?'
            return f'{self._text()} | {scalar} | "[" {items} "]" | "{{" {self._pairs("anything")}'

        self._share("anything", whole)
        return "anything"

    def _part(self, schema: Any) -> str:
        """A rule for what is a value by this part of the schema, which several ways may have in common."""
        if id(schema) not in self._parts:
            self._parts[id(schema)] = self._named(self._value(schema))
        return self._parts[id(schema)]

    def _share(self, name: str, rule: Callable[[], str]) -> None:
        """A rule that is there once."""
        if name not in self._shared:
            self._shared.add(name)
            self._add(name, rule())

    def _named(self, rule: str) -> str:
        name = self._next()
        self._add(name, rule)
        return name

    def _next(self) -> str:
        self._count += 1
        return f"braced_{self._count}"

    def _add(self, name: str, rule: str) -> None:
        self.rules.append(f"{name}: {rule}")
        self._characters += len(self.rules[-1])
        if self._characters > MOST_CHARACTERS:
            raise ValueError(f"their schemas need too many rules, expected at most {MOST_CHARACTERS} characters")

    def _copied(self, text: str) -> str:
        """An expression, as a part of the next; to copy one takes time too."""
        self.schemas.count(1 + len(text) // 64)
        return text


def _known(kind: Any) -> str:
    if not isinstance(kind, str) or kind not in TYPES:
        raise ValueError(f"the type {shown(kind)} in a schema is not known, expected {', '.join(TYPES)}")
    return kind


def _one_of(ways: Iterable[str]) -> str:
    found = [*dict.fromkeys(ways)]
    if not found:
        raise ValueError("a schema leaves nothing to choose from")
    return f"({' | '.join(found)})"


def _separated(parts: Iterable[str]) -> str:
    return ' "," '.join(parts)
