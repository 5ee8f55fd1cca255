"""Values in the text of a call that is no JSON, though it looks like it: objects, lists, strings and words."""

import re
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final

from ..requests.arguments import MOST_NESTED, read_value

BLANKS: Final = re.compile(r"\s*")
PYTHONS: Final = {"True": True, "False": False, "None": None}


class Literals(ABC):
    """Those of one text. Most methods take where something begins, and give what it is and where it ends, or raise
    ValueError."""

    WORD: ClassVar[re.Pattern[str]]
    QUOTES: ClassVar[tuple[str, ...]]  # how strings begin

    def __init__(self, text: str) -> None:
        self.text = text

    @abstractmethod
    def string(self, at: int) -> tuple[str, int]: ...

    @abstractmethod
    def name(self, at: int) -> tuple[str, int]:
        """Of a member of an object."""

    def word(self, text: str) -> Any:
        """Of one that is neither JSON nor one of Python's constants: a string, unless it is more."""
        return text

    def value(self, at: int, left: int = MOST_NESTED) -> tuple[Any, int]:
        """Lists and objects in each other are `left` deep at most."""
        if not left:
            raise ValueError("is nested too deep")
        if self.text.startswith("{", at):
            return self.object(at, left)
        if self.text.startswith("[", at):
            return self._list(at, left)
        if self.text.startswith(self.QUOTES, at):
            return self.string(at)
        word = self.match(self.WORD, at)
        try:
            return read_value(word[0]), word.end()
        except ValueError:
            return PYTHONS[word[0]] if word[0] in PYTHONS else self.word(word[0]), word.end()

    def object(self, at: int, left: int = MOST_NESTED) -> tuple[dict[str, Any], int]:
        return self.members(at, "}", ":", left)

    def members(self, at: int, end: str, sign: str, left: int = MOST_NESTED) -> tuple[dict[str, Any], int]:
        """Behind the sign that begins here, up to this end, each a name and a value with a sign between them."""
        found: dict[str, Any] = {}
        at = self.blanks(at + 1)
        while not self.text.startswith(end, at):
            name, at = self.name(at)
            found[name], at = self.value(self._behind(sign, at), left - 1)
            at = self._next(at, end)
        return found, at + 1

    def blanks(self, at: int) -> int:
        return self.match(BLANKS, at).end()

    def match(self, pattern: re.Pattern[str], at: int) -> re.Match[str]:
        found = pattern.match(self.text, at)
        if found is None:
            raise ValueError("has no name or value where one is expected")
        return found

    def _list(self, at: int, left: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        at = self.blanks(at + 1)
        while not self.text.startswith("]", at):
            value, at = self.value(at, left - 1)
            found.append(value)
            at = self._next(at, "]")
        return found, at + 1

    def _next(self, at: int, end: str) -> int:
        """Where the next of several begins, behind a comma, or their end."""
        at = self.blanks(at)
        return at if self.text.startswith(end, at) else self._behind(",", at)

    def _behind(self, sign: str, at: int) -> int:
        at = self.blanks(at)
        if not self.text.startswith(sign, at):
            raise ValueError(f"has no {sign!r} where one is expected")
        return self.blanks(at + len(sign))
