"""Calls as Python writes them: f(city="Rome", days=3), several with commas or lines between them, or in a list.

Values are Python's literals, or JSON. What models write otherwise is taken too: a bare word is a text, and a quote
within a string is not always escaped, as their templates do not. So a string ends where its quote is followed by what
may stand behind a value."""

import re
from collections.abc import Iterator
from typing import Any, Final

from .literals import Literals

NAME: Final = r"[A-Za-z_][\w.:/-]{0,127}"
CALL: Final = re.compile(rf"\s*({NAME})\s{{0,8}}(?=\()")
BEGINS: Final = re.compile(rf"\s*(?:\[\s{{0,8}})?{NAME}\s{{0,8}}\(")
LIST: Final = re.compile(r"\s*\[\s*(?=[A-Za-z_])")
BETWEEN: Final = re.compile(r"[\s;,]*")
SIGNS: Final = re.compile(
    r"""\\.|(["'])((?=\s{0,8}[,)\]}:]))?""", re.DOTALL
)  # a quote, and whether it could be the end
ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U000[0-9a-fA-F]{5}|U0010[0-9a-fA-F]{4}|.)", re.DOTALL)
ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\n": ""} | {sign: sign for sign in "\\'\"/"}


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
    WORD = re.compile(r"""[^\s,()\[\]{}"'=:]+""")
    QUOTES = ('"', "'")

    def name(self, at: int) -> tuple[str, int]:
        """Of an argument, or in an object."""
        if self.text.startswith(self.QUOTES, at):
            return self.string(at)
        name = self.match(self.WORD, at)
        return name[0], name.end()

    def string(self, at: int) -> tuple[str, int]:
        quote = self.text[at]
        for found in SIGNS.finditer(self.text, at + 1):
            if found[1] == quote and found[2] is not None:
                body = self.text[at + 1 : found.start()]
                if len(body) >= 4 and body[:2] == body[-2:] == quote * 2:  # of three quotes
                    body = body[2:-2]
                return _unescaped(body), found.end()
        raise ValueError("is a string without an end")


def _unescaped(text: str) -> str:
    """What Python knows no escape for stays as it is. Two halves of a pair, as JSON spells them, are one character."""
    text = ESCAPE.sub(lambda found: _character(found[1]), text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _character(sign: str) -> str:
    return chr(int(sign[1:], 16)) if len(sign) > 1 else ESCAPES.get(sign, f"\\{sign}")
