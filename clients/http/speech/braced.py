"""The arguments of a call as Gemma 4 writes them: {city:<|"|>Rome<|"|>,days:3}. It is JSON, but that names stand bare,
and that the mark of a string is a token of its own: what stands between two of them is the string as it is.

What the model may write otherwise is taken too: strings and names in JSON, Python's constants, bare words, blanks."""

import re
from typing import Any, Final

from ..requests.arguments import read_next
from .literals import Literals

QUOTE: Final = '<|"|>'
NAME: Final = re.compile(r'[^\s:,{}\[\]<>"](?:[^\n:,{}\[\]<>"]*[^\s:,{}\[\]<>"])?')  # that may stand bare


def read_braced(text: str, start: int) -> tuple[dict[str, Any], int]:
    """The object that begins here, and where it ends. Raises ValueError."""
    if not text.startswith("{", start):
        raise ValueError("is not an object")
    return _Braced(text).object(start)


class _Braced(Literals):
    WORD = re.compile(r'[^\s,{}\[\]<>"](?:[^,{}\[\]<>"]*[^\s,{}\[\]<>"])?')
    QUOTES = ('"', "<")

    def name(self, at: int) -> tuple[str, int]:
        if self.text.startswith(self.QUOTES, at):
            return self.string(at)
        name = self.match(NAME, at)
        return name[0], name.end()

    def string(self, at: int) -> tuple[str, int]:
        if self.text.startswith('"', at):
            found, end = read_next(self.text, at)
            return str(found), end
        begin = at + len(QUOTE)
        end = self.text.find(QUOTE, begin) if self.text.startswith(QUOTE, at) else -1
        if end < 0:
            raise ValueError("is a string without an end")
        return self.text[begin:end], end + len(QUOTE)
