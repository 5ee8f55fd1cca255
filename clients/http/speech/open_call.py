"""Whether the text of a call, which comes in pieces, is complete where a mark stands: in a string or a value, the mark
that ends a call is text."""

import re
from enum import Enum, auto
from typing import Final

from .braced import QUOTE
from .call_marks import BLOCK_CALL, BLOCK_SIGN


class Form(Enum):
    JSON = auto()
    FUNCTIONS = auto()
    PAIRS = auto()
    NAMED = auto()
    BRACED = auto()
    BLOCK = auto()


FUNCTION: Final = re.compile(r"\s*<function=([^>\n]+)>\s*")
FUNCTION_END: Final = "</function>"
BRACED: Final = re.compile(r"\s*call:\s*([^\s{<\[]+)\s*(?=\{)")
BLOCK: Final = re.compile(
    rf"\s*{BLOCK_CALL}\s{{0,8}}(?:function{BLOCK_SIGN})?([^\s<{{`]+)"
    rf"\s{{0,8}}(?:{BLOCK_SIGN}\s{{0,8}})?(?:```(?:json)?\s{{0,8}})?(?=\{{)"
)
KEY: Final = "<arg_key>"
ARGUMENTS: Final = "[ARGS]"
JSON_BEGINS: Final = re.compile(r"\s*(?:\{|\[(?!ARGS\]))")
BLOCK_BEGINS: Final = re.compile(rf"\s*{BLOCK_CALL}")
QUOTES: Final = re.compile(r'\\.|"', re.DOTALL)
PARAMETERS: Final = re.compile("<parameter=|</parameter>")
BRACED_QUOTES: Final = re.compile(re.escape(QUOTE))
VALUES: Final = re.compile("<arg_value>|</arg_value>")
MARKS: Final = {Form.FUNCTIONS: PARAMETERS, Form.PAIRS: VALUES, Form.BRACED: BRACED_QUOTES}
LONGEST: Final = 1024  # characters: a name and the mark behind it, or a mark and the blanks behind that, are no longer


def form_of(text: str, start: int = 0) -> Form:
    if JSON_BEGINS.match(text, start):
        return Form.JSON
    if FUNCTION.match(text, start):
        return Form.FUNCTIONS
    if BRACED.match(text, start):
        return Form.BRACED
    if BLOCK_BEGINS.match(text, start):
        return Form.BLOCK
    named, key = (text.find(mark, start, start + LONGEST) for mark in (ARGUMENTS, KEY))
    return Form.NAMED if named >= 0 and not 0 <= key < named else Form.PAIRS


class OpenCall:
    """For one call, whose text begins at `start`. Each part of it is looked at once."""

    def __init__(self, start: int) -> None:
        self._start = start
        self._at = start
        self._form: Form | None = None
        self._within = False  # a string or a value

    def at(self, text: str, end: int) -> bool:
        """Whether it goes on behind this place. Places only grow."""
        form = self._form = self._form or form_of(text, self._start)
        marks = MARKS.get(form, QUOTES)
        for found in marks.finditer(text, self._at, end):
            if found[0] in ('"', QUOTE):
                self._within = not self._within
            elif marks is not QUOTES:
                self._within = not found[0].startswith("</")
        self._at = max(self._at, end)
        last = text[max(self._start, end - LONGEST) : end].rstrip()
        return self._within or (form is Form.FUNCTIONS and not last.endswith(FUNCTION_END))
