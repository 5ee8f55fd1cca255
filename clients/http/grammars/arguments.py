"""The arguments of a call as a part of a grammar, by the tool's schema.

Where each is bare text between marks, they come in the schema's order; what is for a string is one of the words that
the schema lists, or else any text up to the mark behind it, as whoever reads the call takes it. A schema that does not
list its properties leaves all of them open."""

import re
from collections.abc import Callable, Mapping
from json import dumps
from typing import Any, Final

from ....protocol import Grammar
from ..requests.schemas import constants_of, types_of, words_of
from ..speech.open_call import FUNCTION_END, INVOKE_END

ANY: Final = "/(?s:.*)/"
BLANK: Final = "/ ?/"
LINE: Final = r"/\n?/"
LINES: Final = r"/\s{0,2}/"
PARAMETER_END: Final = "</parameter>"
PAIR_MARKS: Final = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
READABLE: Final = re.compile(r"[^<>\s](?:[^<>\n]*[^<>\s])?")  # names that are read as they are written
INVOKABLE: Final = re.compile(r'[^<>"\s](?:[^<>"\n]*[^<>"\s])?')  # and within quotes
WHOLE: Final = "#/$defs/whole"
PYTHONS: Final = {
    "boolean": ("true", "false", "True", "False"),
    "null": ("null", "None"),
}  # as some templates write them
Mark = Callable[[str], str]
Schema = Mapping[str, Any]
Found = tuple[str, dict[str, str]]  # a part of a rule, and the lazy rules that it needs


def json_arguments(schema: Schema) -> str:
    return f"{BLANK} {Grammar.json(schema).rule}"


def function_arguments(schema: Schema) -> Found:
    """Those of <function=…>, with its end."""
    return _tagged(schema, READABLE, "<parameter={}>", LINE, FUNCTION_END)


def invoke_arguments(schema: Schema) -> Found:
    """Those of <invoke name=…>, with its end."""
    return _tagged(schema, INVOKABLE, '<parameter name="{}">', "", INVOKE_END)


def _tagged(schema: Schema, readable: re.Pattern[str], begin: str, line: str, end: str) -> Found:
    """`line` may stand around a value that is no text."""
    listed = listed_arguments(schema, readable)
    if listed is None:
        return "to_its_end", {"to_its_end": f"{ANY} {dumps(end)}"}
    parts = []
    for name, given, needed in listed:
        value = _value(schema, name, given)
        written = "parameter" if value is None else f"{line} ({value}) {line} {dumps(PARAMETER_END)}"
        parts.append(_perhaps(f"{dumps(begin.format(name))} {written} {LINES}", needed))
    return f"{' '.join(parts)} {dumps(end)}", {"parameter": f"{ANY} {dumps(PARAMETER_END)}"}


def pair_arguments(schema: Schema, mark: Mark) -> Found:
    """Those of <arg_key>…, up to the end of the call."""
    key, key_end, begin, end = map(mark, PAIR_MARKS)
    text = f"{ANY} {end}" if end.startswith("<") else "pair"
    listed = listed_arguments(schema, READABLE)
    if listed is None:
        name = f"{ANY} {key_end}" if key_end.startswith("<") else "key"
        lazy = {"pair": f"{ANY} {end}", "key": f"{ANY} {key_end}"}
        return f"({key} {name} {LINE} {begin} {text} {LINE})*", lazy
    parts = []
    for name, given, needed in listed:
        value = _value(schema, name, given)
        written = text if value is None else f"({value}) {end}"
        parts.append(_perhaps(f"{key} {dumps(name)} {key_end} {LINE} {begin} {written} {LINE}", needed))
    return f"{LINE} {' '.join(parts)}", {"pair": f"{ANY} {end}"}


def _perhaps(part: str, needed: bool) -> str:
    return f"({part})" if needed else f"({part})?"


def listed_arguments(schema: Schema, readable: re.Pattern[str]) -> list[tuple[str, Any, bool]] | None:
    """Each argument: its name, the schema of its value, and whether it is required. None if they are not listed, or
    their names could not be read back."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties or not all(map(readable.fullmatch, properties)):
        return None
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    return [(name, value, name in needed) for name, value in properties.items()]


def _value(schema: Schema, name: str, given: Any) -> str | None:
    """What a value must be: JSON, or one of some words; None for any text."""
    if words := words_of(schema, name):
        return " | ".join(map(dumps, words))
    types = types_of(schema, name)
    return None if "string" in types or not types else json_value(schema, name, given)


def json_value(schema: Schema, name: str, given: Any) -> str:
    """What a value of this argument has to be in JSON, or of Python's constants. `given` is its own schema."""
    if kinds := constants_of(schema, name):
        return " | ".join(map(dumps, sorted({word for kind in kinds for word in PYTHONS[kind]})))
    options = {"x-guidance": schema["x-guidance"]} if "x-guidance" in schema else {}
    if "$ref" not in dumps(given):
        return Grammar.json({**given, **options}).rule
    place = name.replace("~", "~0").replace("/", "~1")
    return Grammar.json({"$ref": f"{WHOLE}/properties/{place}", "$defs": {"whole": _moved(schema)}, **options}).rule


def _moved(value: Any) -> Any:
    """A schema that stands within another: what it refers to stands there too."""
    if isinstance(value, list):
        return [_moved(one) for one in value]
    if not isinstance(value, dict):
        return value
    moved = {key: _moved(one) for key, one in value.items()}
    place = value.get("$ref")
    if isinstance(place, str) and place.startswith("#"):
        moved["$ref"] = WHOLE + place[1:]
    return moved
