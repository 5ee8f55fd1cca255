"""The arguments of a call as a part of a grammar, by the tool's schema.

Where each is bare text between marks, they come in the schema's order, and a string is any text up to the mark behind
it. A schema that does not list them leaves all of them open."""

from collections.abc import Callable, Mapping
from json import dumps
from typing import Any, Final

from ....protocol import Grammar
from ..requests.schemas import types_of
from ..speech.open_call import FUNCTION_END

ANY: Final = "/(?s:.*)/"
BLANK: Final = "/ ?/"
LINE: Final = r"/\n?/"
DEFINITIONS: Final = ("$defs", "definitions")
PARAMETER_END: Final = "\n</parameter>\n"
PAIR_MARKS: Final = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
Mark = Callable[[str], str]
Schema = Mapping[str, Any]
Found = tuple[str, dict[str, str]]  # a part of a rule, and the lazy rules that it needs


def json_arguments(schema: Schema) -> str:
    return f"{BLANK} {Grammar.json(schema).rule}"


def function_arguments(schema: Schema, _: Mark) -> Found:
    """Those of <function=…>, with its end."""
    end = dumps(FUNCTION_END)
    listed = _listed(schema)
    if listed is None:
        return "to_its_end", {"to_its_end": f"{ANY} {end}"}
    text, parts = {"parameter": f"{ANY} {dumps(PARAMETER_END)}"}, []
    for name, value, needed in listed:
        written = "parameter" if value is None else f"({value}) {dumps(PARAMETER_END)}"
        parts.append(_perhaps(f"{dumps(f'<parameter={name}>' + chr(10))} {written}", needed))
    return f"{' '.join(parts)} {end}", text


def pair_arguments(schema: Schema, mark: Mark) -> Found:
    """Those of <arg_key>…, up to the end of the call."""
    key, key_end, begin, end = map(mark, PAIR_MARKS)
    listed = _listed(schema)
    if listed is None:
        text = f"{ANY} {end}" if end.startswith("<") else "pair"
        return f"({key} {ANY} {key_end} {LINE} {begin} {text} {LINE})*", {"pair": f"{ANY} {end}"}
    parts = []
    for name, value, needed in listed:
        text = f"({value}) {end}" if value is not None else f"{ANY} {end}" if end.startswith("<") else "pair"
        parts.append(_perhaps(f"{key} {dumps(name)} {key_end} {LINE} {begin} {text} {LINE}", needed))
    return " ".join(parts), {"pair": f"{ANY} {end}"}


def _perhaps(part: str, needed: bool) -> str:
    return f"({part})" if needed else f"({part})?"


def _listed(schema: Schema) -> list[tuple[str, str | None, bool]] | None:
    """Each argument: its name, what its value must be (None: any text), and whether it is required. None if they are
    not listed."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return None
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return [(name, _value(schema, name, value), name in needed) for name, value in properties.items()]


def _value(schema: Schema, name: str, value: Any) -> str | None:
    """What a value must be: JSON, or one of some words; None for any text."""
    types = types_of(schema, name)
    words = value.get("enum") if isinstance(value, dict) else None
    if types == {"string"} and words and all(isinstance(word, str) and word for word in words):
        return " | ".join(map(dumps, words))
    if "string" in types or not types:
        return None
    known = {key: schema[key] for key in (*DEFINITIONS, "x-guidance") if key in schema}
    return Grammar.json({**value, **known}).rule
