"""The arguments of a call as Gemma 4 writes them: {city:<|"|>Rome<|"|>,days:3}. It is JSON, but that names stand bare,
and that the mark of a string is a token of its own: what stands between two of them is the string as it is.

What the model may write otherwise is taken too: strings and names in JSON, Python's constants, bare words, blanks."""

import re
from typing import Any, Final

from ..requests.arguments import MOST_NESTED, read_next, read_value

QUOTE: Final = '<|"|>'
NAME: Final = re.compile(r'[^\s:,{}\[\]<>"](?:[^\n:,{}\[\]<>"]*[^\s:,{}\[\]<>"])?')  # that may stand bare
WORD: Final = re.compile(r'[^\s,{}\[\]<>"](?:[^,{}\[\]<>"]*[^\s,{}\[\]<>"])?')
BLANKS: Final = re.compile(r"\s*")
PYTHONS: Final = {"True": True, "False": False, "None": None}  # as templates write None


def read_braced(text: str, start: int) -> tuple[dict[str, Any], int]:
    """The object that begins here, and where it ends. Raises ValueError."""
    if not text.startswith("{", start):
        raise ValueError("is not an object")
    return _object(text, start, MOST_NESTED)


def _value(text: str, at: int, left: int) -> tuple[Any, int]:
    if not left:
        raise ValueError("is nested too deep")
    match text[at : at + 1]:
        case "{":
            return _object(text, at, left)
        case "[":
            return _list(text, at, left)
        case '"' | "<":
            return _string(text, at)
    word = _match(WORD, text, at)
    try:
        return read_value(word[0]), word.end()
    except ValueError:
        return PYTHONS.get(word[0], word[0]), word.end()


def _object(text: str, at: int, left: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    at = _blanks(text, at + 1)
    while not text.startswith("}", at):
        name, at = _name(text, at)
        found[name], at = _value(text, _behind(":", text, at), left - 1)
        at = _next(text, at, "}")
    return found, at + 1


def _list(text: str, at: int, left: int) -> tuple[list[Any], int]:
    found: list[Any] = []
    at = _blanks(text, at + 1)
    while not text.startswith("]", at):
        value, at = _value(text, at, left - 1)
        found.append(value)
        at = _next(text, at, "]")
    return found, at + 1


def _next(text: str, at: int, end: str) -> int:
    """Where the next of several begins, behind a comma, or their end."""
    at = _blanks(text, at)
    return at if text.startswith(end, at) else _behind(",", text, at)


def _name(text: str, at: int) -> tuple[str, int]:
    if text.startswith(('"', "<"), at):
        return _string(text, at)
    name = _match(NAME, text, at)
    return name[0], name.end()


def _string(text: str, at: int) -> tuple[str, int]:
    if text.startswith('"', at):
        found, end = read_next(text, at)
        return str(found), end
    begin = at + len(QUOTE)
    end = text.find(QUOTE, begin) if text.startswith(QUOTE, at) else -1
    if end < 0:
        raise ValueError("is a string without an end")
    return text[begin:end], end + len(QUOTE)


def _behind(sign: str, text: str, at: int) -> int:
    at = _blanks(text, at)
    if not text.startswith(sign, at):
        raise ValueError(f"has no {sign!r} where one is expected")
    return _blanks(text, at + 1)


def _blanks(text: str, at: int) -> int:
    return _match(BLANKS, text, at).end()


def _match(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    found = pattern.match(text, at)
    if found is None:
        raise ValueError("has no name or value where one is expected")
    return found
