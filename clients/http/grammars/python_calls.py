"""The arguments of a call as Python writes them (speech/python_calls.py), as rules of a grammar by the tool's schema.

They come in the schema's order. A string is one of the words that the schema lists, or else any text in quotes; other
values are JSON, or Python's constants. A schema that does not list its properties leaves all of them open."""

import re
from json import dumps
from typing import Any, Final

from ....protocol import Grammar
from ..requests.schemas import types_of, words_of
from .arguments import PYTHONS, Schema, json_value, listed_arguments

NAME: Final = re.compile(r"[^\W\d][\w.-]{0,127}")
END: Final = '")"'
BETWEEN: Final = "/, ?/"
QUOTED: Final = r"/'([^'\\\n]|\\[^\n])*'/"
OTHERS: Final = ("number", "boolean", "null", "array", "object")
SHARED: Final = {
    "python_text": f"{Grammar.json({'type': 'string'}).rule} | {QUOTED}",
    "python_other": f"{Grammar.json({'type': OTHERS}).rule} | {' | '.join(map(dumps, ('True', 'False', 'None')))}",
    "python_any": "python_text | python_other",
    "python_pair": f'/{NAME.pattern}/ "=" python_any',
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
        listed = listed_arguments(schema, NAME)
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
    if words := words_of(schema, name):
        return " | ".join(dumps(way) for word in words for way in _ways(word))
    types = types_of(schema, name)
    if "string" not in types and types:
        return json_value(schema, name, given)
    return "python_text" if types == {"string"} else "python_any"


def _ways(word: str) -> tuple[str, ...]:
    """How one of the words may be written, of which null is no string."""
    if word == "null":
        return PYTHONS[word]
    return (dumps(word), f"'{word}'") if word.isprintable() and not {"'", "\\"} & {*word} else (dumps(word),)
