"""What the answers of a request must match, read from each API's own field for it."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from ....protocol import Grammar
from ..refused import HttpRefused, wrong
from .arguments import check_depth
from .fields import Fields, shown
from .holds import lenient, loosened

TEXT, OBJECT, SCHEMA = "text", "json_object", "json_schema"
TYPES: Final = (TEXT, OBJECT, SCHEMA)
STRUCTURED: Final = "structured_outputs"
WAYS: Final = ("json", "json_object", "regex", "choice")
MOST_CHOICES: Final = 1024
MOST_CHARACTERS: Final = 1 << 14
SPECIAL: Final = re.compile(r"[\\.+*?()|\[\]{}^$#&~-]")  # in a regular expression
GRAMMAR: Final = "grammar: "
PLACE: Final = re.compile(r"^(at )?\d+\(\d+\): ")  # in a grammar that nobody but us has seen


class Format(NamedTuple):
    """`param` is the field that it came in; `loose` is what to try if the grammar is refused."""

    grammar: Grammar
    param: str
    loose: Grammar | None = None


def grammar_refused(asked: Format | None, error: str) -> HttpRefused:
    """What the daemon says of a grammar. Without a format it was made for calls of tools."""
    return wrong(asked.param if asked else "tools", PLACE.sub("", error.removeprefix(GRAMMAR)))


def chat_format(fields: Fields) -> Format | None:
    """`response_format`, and vLLM's `structured_outputs`; not both."""
    formatted, structured = _read(fields, "response_format", lambda given: given.within(SCHEMA)), _structured(fields)
    if formatted and structured:
        raise wrong(STRUCTURED, "does not go with response_format")
    return formatted or structured


def response_format(text: Fields) -> Format | None:
    """`format` of the field `text`, whose schema is not within an object of its own."""
    return _read(text, "format", lambda given: given)


def message_format(fields: Fields) -> Format | None:
    """`output_config.format`, or `output_format`, as it was called."""
    given = fields.value("output_config")
    config = Fields({} if given is None else given, "output_config")
    newer, older = (
        _read(one, name, lambda given: given) for one, name in ((config, "format"), (fields, "output_format"))
    )
    return newer or older


def _read(fields: Fields, name: str, within: Callable[[Fields], Fields]) -> Format | None:
    if fields.value(name) is None:
        return None
    given = fields.within(name)
    kind = given.needed("type")
    if kind not in TYPES:
        raise wrong(given.path("type"), f"{shown(kind)} is not supported, expected {', '.join(TYPES)}")
    if kind == TEXT:
        return None
    if kind == OBJECT and given.value("schema") is None:
        return Format(Grammar.json({"type": "object"}), fields.path(name))
    if kind == OBJECT:  # as other servers take it
        return _schema(given, "schema", strict=False)
    holder = within(given)
    return _schema(holder, "schema", bool(holder.flag("strict")))


def _structured(fields: Fields) -> Format | None:
    if fields.value(STRUCTURED) is None:
        return None
    given = fields.within(STRUCTURED)
    named = [name for name in WAYS if given.value(name) is not None]
    others = [name for name, value in given.all.items() if name not in WAYS and value not in (None, False)]
    if len(named) != 1 or others:
        raise wrong(STRUCTURED, f"expected one of {', '.join(WAYS)}")
    (name,) = named
    match name:
        case "json":
            return _schema(given, name, strict=True)
        case "json_object":
            return Format(Grammar.json({"type": "object"}), given.path(name)) if given.flag(name) else None
        case "regex":
            if not (text := given.long_text(name, MOST_CHARACTERS)):
                raise wrong(given.path(name), "an empty string, expected at least one character")
            return _regex(given, name, text)
    choices = given.texts(name, MOST_CHOICES, one=False)
    if not choices:
        raise wrong(given.path(name), "is empty, expected at least one string")
    if sum(map(len, choices)) > MOST_CHARACTERS:
        raise wrong(given.path(name), f"has more than {MOST_CHARACTERS} characters")
    return _regex(given, name, "|".join(SPECIAL.sub(r"\\\g<0>", one) for one in choices))


def _schema(fields: Fields, name: str, strict: bool) -> Format:
    """Unless it is strict, what an answer cannot be held to is left out: OpenAI promises no more then."""
    schema = fields.needed(name)
    Fields(schema, fields.path(name))  # an object
    try:
        check_depth(schema)
        if strict:
            return Format(Grammar.json(schema), fields.path(name))
        loose = Grammar.json(lenient(loosened(schema)))
        return Format(Grammar.json(lenient(schema)), fields.path(name), loose)
    except ValueError as problem:
        raise wrong(fields.path(name), _said(problem)) from None


def _regex(fields: Fields, name: str, text: str) -> Format:
    try:
        text.encode()
    except ValueError as problem:
        raise wrong(fields.path(name), _said(problem)) from None
    return Format(Grammar("regex", text), fields.path(name))


def _said(problem: ValueError) -> str:
    return "holds half of a surrogate pair" if isinstance(problem, UnicodeEncodeError) else str(problem)
