"""Calls as Python writes them: f(city="Rome", days=3), several with commas or lines between them, or in a list.

Values are Python's literals, or JSON. What models write otherwise is taken too: a bare word is a text, and a quote
within a string is not always escaped, as their templates do not. So a string ends where its quote is followed by what
may stand behind a value."""

import ast
import re
from collections.abc import Iterator
from math import isfinite
from typing import Any, Final

from .literals import Literals

NAME: Final = "[A-Za-z0-9_.:/-]{1,128}"
CALL: Final = re.compile(rf"\s*({NAME})\s{{0,8}}(?=\()")
BEGINS: Final = re.compile(rf"\s*(?:\[\s{{0,8}})?{NAME}\s{{0,8}}\(")
LIST: Final = re.compile(rf"\s*\[\s*(?={NAME})")
BETWEEN: Final = re.compile(r"[\s;,]*")
WORD: Final = re.compile(r"""[^\s,()\[\]{}"'=:]+""")  # a name, or a value without quotes
SIGNS: Final = re.compile(r"""\\.|("{3,}|'{3,}|["'])((?=\s*[,)\]}:]))?""", re.DOTALL)  # quotes, and if they may end
THREE: Final = 3
ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|U0010[0-9a-fA-F]{4}|.)", re.DOTALL)
ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""} | {sign: sign for sign in "\\'\"/"}
NUMBER: Final = re.compile(r"[+-]?[0-9.][0-9a-fA-FxXoO_.+-]{0,63}")


def read_python(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls that this is. Raises ValueError."""
    literals, listed = _Python(text), LIST.match(text)
    at = listed.end() if listed else 0
    while at < len(text):
        name = literals.match(CALL, at)
        arguments, at = literals.members(name.end(), ")", "=")
        yield name[1], arguments
        at = literals.match(BETWEEN, at).end()
        if listed and text.startswith("]", at):
            if text[at + 1 :].strip():
                raise ValueError("goes on behind its end")
            return


class _Python(Literals):
    WORD = WORD
    QUOTES = ('"', "'")

    def name(self, at: int) -> tuple[str, int]:
        """Of an argument, or in an object."""
        if self.text.startswith(self.QUOTES, at):
            return self.string(at)
        name = self.match(self.WORD, at)
        return name[0], name.end()

    def string(self, at: int) -> tuple[str, int]:
        begin = self.match(SIGNS, at)
        size = THREE if len(begin[1]) >= THREE else 1
        if len(begin[1]) >= 2 * THREE and begin[2] is not None:
            return begin[1][THREE:-THREE], begin.end()
        for found in SIGNS.finditer(self.text, begin.end()):
            if ends(begin[1][:size], found):
                return _unescaped(self.text[at + size : found.end() - size]), found.end()
        raise ValueError("is a string without an end")

    def word(self, text: str) -> Any:
        """Python has more ways to write a number than JSON."""
        try:
            number = ast.literal_eval(text) if NUMBER.fullmatch(text) else text
        except (ValueError, SyntaxError):
            return text
        return number if isinstance(number, int | float) and isfinite(number) else text


def ends(quotes: str, found: re.Match[str]) -> bool:
    """Whether what SIGNS has found ends a string that began with these quotes, three or one."""
    return found[1] is not None and found[1].startswith(quotes) and found[2] is not None


def _unescaped(text: str) -> str:
    """What is no escape, or one that hardly any text has, stays as it is. Two halves of a pair, as JSON spells them,
    are one character."""
    text = ESCAPE.sub(lambda found: _character(found[1]), text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _character(sign: str) -> str:
    return chr(int(sign[1:], 16)) if len(sign) > 1 else ESCAPES.get(sign, f"\\{sign}")
