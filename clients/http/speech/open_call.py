"""Whether the text of a call, which comes in pieces, is complete where a mark stands: in a string or a value, the mark
that ends a call is text."""

import re
from typing import Final

from .braced import QUOTE
from .call_marks import BLOCK_CALL, BLOCK_SIGN, SECTION_CALL, SECTION_SIGN, Form
from .python_calls import BEGINS, SIGNS, THREE, ends

FUNCTION: Final = re.compile(r"\s*<function=([^>\n]+)>\s*")
FUNCTION_END: Final = "</function>"
INVOKE: Final = re.compile(r'\s*<invoke name="([^"\n]+)">\s*')
INVOKE_END: Final = "</invoke>"
BRACED: Final = re.compile(r"\s*call:\s*([^\s{<\[]+)\s*(?=\{)")
BLOCK: Final = re.compile(
    rf"\s*{BLOCK_CALL}\s{{0,8}}(?:function{BLOCK_SIGN})?([^\s<{{`]+)"
    rf"\s{{0,8}}(?:{BLOCK_SIGN}\s{{0,8}})?(?:```(?:json)?\s{{0,8}})?(?=\{{)"
)
SECTION: Final = re.compile(
    rf"\s*{re.escape(SECTION_CALL)}\s{{0,8}}(?:functions\.)?([^\s<{{]+?)(?::\d{{1,9}})?\s{{0,8}}{re.escape(SECTION_SIGN)}"
    r"\s{0,8}(?=\{)"
)
KEY: Final = "<arg_key>"
ARGUMENTS: Final = "[ARGS]"
JSON_BEGINS: Final = re.compile(r"\s*(?:\{|\[(?!ARGS\]))")
BLOCK_BEGINS: Final = re.compile(rf"\s*{BLOCK_CALL}")
SECTION_BEGINS: Final = re.compile(rf"\s*{re.escape(SECTION_CALL)}")
QUOTES: Final = re.compile(r'\\.|"', re.DOTALL)
PARAMETERS: Final = re.compile("<parameter=|</parameter>")
INVOKED: Final = re.compile("<parameter name=|</parameter>")
BRACED_QUOTES: Final = re.compile(re.escape(QUOTE))
VALUES: Final = re.compile("<arg_value>|</arg_value>")
MARKS: Final = {
    Form.FUNCTIONS: PARAMETERS,
    Form.INVOKES: INVOKED,
    Form.PAIRS: VALUES,
    Form.BRACED: BRACED_QUOTES,
    Form.PYTHON: SIGNS,
}
LAST: Final = {Form.FUNCTIONS: FUNCTION_END, Form.INVOKES: INVOKE_END}
LONGEST: Final = 1024  # characters: a name and the mark behind it, or a mark and the blanks behind that, are no longer


def form_of(text: str, start: int = 0, python: bool = False) -> Form:
    """`python`: the model was told to write that; from others such a text is none of it."""
    if python and BEGINS.match(text, start):
        return Form.PYTHON
    if JSON_BEGINS.match(text, start):
        return Form.JSON
    if FUNCTION.match(text, start):
        return Form.FUNCTIONS
    if INVOKE.match(text, start):
        return Form.INVOKES
    if BRACED.match(text, start):
        return Form.BRACED
    if BLOCK_BEGINS.match(text, start):
        return Form.BLOCK
    if SECTION_BEGINS.match(text, start):
        return Form.SECTION
    named, key = (text.find(mark, start, start + LONGEST) for mark in (ARGUMENTS, KEY))
    return Form.NAMED if named >= 0 and not 0 <= key < named else Form.PAIRS


class OpenCall:
    """For one call, whose text begins at `start`. Each part of it is looked at once."""

    def __init__(self, start: int, python: bool = False) -> None:
        self._start = start
        self._python = python
        self._at = start
        self._form: Form | None = None
        self._within = ""  # the sign that began a string or a value

    def at(self, text: str, end: int) -> bool:
        """Whether it goes on behind this place. Places only grow."""
        form = self._form = self._form or form_of(text, self._start, self._python)
        for found in MARKS.get(form, QUOTES).finditer(text, self._at, end):
            if form is Form.PYTHON:
                self._quoted(found)
            elif found[0] in ('"', QUOTE):
                self._within = "" if self._within else found[0]
            elif form in MARKS:
                self._within = "" if found[0].startswith("</") else found[0]
        self._at = max(self._at, end)
        last = text[max(self._start, end - LONGEST) : end].rstrip()
        return self._within != "" or not last.endswith(LAST.get(form, ""))

    def _quoted(self, found: re.Match[str]) -> None:
        """Python's strings end at the quotes that they began with, and only where a value may end."""
        quotes, could_end = found.groups()
        if not quotes:
            return
        if self._within:
            self._within = "" if ends(self._within, found) else self._within
        elif len(quotes) < 2 * THREE or could_end is None:
            self._within = quotes if len(quotes) < THREE else quotes[:THREE]
