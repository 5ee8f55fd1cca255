"""The arguments of a call as Python writes them (speech/python_calls.py), as rules of a grammar by the tool's schema.

They come in the schema's order, each JSON by its schema. Where that may be any string, or one of some words, single
quotes are taken too, and where it may be one of Python's constants, these. Within lists and objects all is JSON. A
schema that does not list its properties leaves all of them open."""

from collections.abc import Mapping
from json import dumps
from typing import Any, Final

from ....protocol import Grammar
from ..requests.schemas import PATTERN, WORDS_OF_TYPES, choices_of
from ..speech.python_calls import WORD
from .arguments import Schema, json_value, listed_arguments

END: Final = '")"'
BETWEEN: Final = "/, ?/"
TEXT: Final = "python_text"
ANY: Final = "python_any"
CONSTANTS: Final = {True: "True", False: "False", None: "None"}
SHARED: Final = {
    TEXT: r"/'([^'\\\n]|\\[^\n])*'/",
    ANY: f"{Grammar.json({}).rule} | {TEXT} | {' | '.join(map(dumps, CONSTANTS.values()))}",
    "python_pair": f'/[^\\s,()\\[\\]{{}}"\'=:]{{1,128}}/ "=" {ANY}',
}


class PythonRules:
    """Collects the `rules` that the arguments of all tools need."""

    def __init__(self) -> None:
        self._count = 0
        self._own: list[str] = []

    @property
    def rules(self) -> list[str]:
        return [*(f"{name}: {rule}" for name, rule in SHARED.items()), *self._own] if self._count else []

    def arguments(self, schema: Schema) -> str:
        """What stands behind the first parenthesis, with the last."""
        self._count += 1
        listed = listed_arguments(schema, WORD)
        if listed is None and not schema.get("properties") and schema.get("additionalProperties") is False:
            return END
        if listed is None:
            return f"(python_pair ({BETWEEN} python_pair)*)? {END}"
        ways, rest = [END], END  # how they may begin, and what follows behind one
        for name, given, needed in reversed(listed):
            one = f"{dumps(f'{name}=')} ({_value(schema, name, given)})"
            if needed:
                ways.clear()
            ways.append(f"{one} {rest}")
            rest = self._named(f"{BETWEEN} {one} {rest}" if needed else f"({BETWEEN} {one})? {rest}")
        return f"({' | '.join(reversed(ways))})"

    def _named(self, rule: str) -> str:
        self._own.append(f"python_{len(self._own)}: {rule}")
        return f"python_{len(self._own) - 1}"


def _value(schema: Schema, name: str, given: Any) -> str:
    if not isinstance(given, Mapping) or not given:
        return ANY
    ways = dict.fromkeys([json_value(schema, name, given)])
    for choice in choices_of(schema, name):
        ways |= dict.fromkeys(_python(choice))
    return " | ".join(ways)


def _python(choice: Mapping[str, Any]) -> list[str]:
    """What Python may write for this and JSON would not."""
    values = [choice["const"]] if "const" in choice else choice.get("enum")
    if isinstance(values, list):
        return [dumps(written) for value in values for written in _written(value)]
    named = choice.get("type")
    types = named if isinstance(named, list) else [named]
    constants = {"boolean": ("True", "False"), "null": ("None",)}
    found = [dumps(word) for kind in types if isinstance(kind, str) for word in constants.get(kind, ())]
    held = any(word in choice for word in (PATTERN, *WORDS_OF_TYPES["string"]))
    return [*found, TEXT] if "string" in types and not held else found


def _written(value: Any) -> list[str]:
    if isinstance(value, str):
        plain = value.isprintable() and not {"'", "\\"} & {*value}
        return [f"'{value}'"] if plain else []
    return [CONSTANTS[value]] if value is None or isinstance(value, bool) else []
