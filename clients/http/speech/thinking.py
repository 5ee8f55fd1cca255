"""Splits answers into reasoning and the answer itself, for models that mark it in their text. The blanks around a
thought are dropped; several parts of a kind are joined by a newline."""

import re
from typing import Final

from ...thoughts import Marks
from .cutter import Delta, Told


class Splitter:
    """For one answer, which is not `done` before it ends. In what push and finish return, each piece is marked as
    thought or not. Log probabilities go with the first piece that is sent after they came."""

    done: Final = False

    def __init__(self, marks: Marks, begun: bool) -> None:
        """`begun`: the prompt has already opened the thought."""
        self._marks = marks
        self._strays = re.compile("|".join(map(re.escape, marks.strays)))
        self.thinking = begun
        self._undecided = not begun  # nothing but blanks came so far
        self._bare = True  # nothing of the current part was sent
        self._held = ""
        self._kinds: set[bool] = set()  # those of the parts that were sent
        self._told = Told()

    @classmethod
    def after(cls, marks: Marks, prompt: str) -> "Splitter":
        """For the answer to this prompt."""
        return cls(marks, prompt.rstrip().endswith(marks.begin))

    def push(self, delta: Delta) -> list[Delta]:
        self._told.add(delta.likely)
        self._held += delta.text
        return self._told.with_first(self._decided())

    def finish(self, delta: Delta) -> list[Delta]:
        """The rest, with the last delta: an incomplete mark is text."""
        parts = self.push(delta)
        self._bare = self._bare and not self._undecided
        last: list[Delta] = []
        self._put(last, self._held.rstrip() if self.thinking else self._unmarked(self._held))
        self._held = ""
        return parts + self._told.rest(last, self.thinking)

    def _decided(self) -> list[Delta]:
        """The pieces of which it is known whether they are thoughts."""
        parts: list[Delta] = []
        if self._undecided and not self._opened():
            return parts
        while self._thought(parts) if self.thinking else self._said(parts):
            pass
        return parts

    def _opened(self) -> bool:
        """Whether it is known now how the answer begins."""
        text = self._held.lstrip()
        if text.startswith(self._marks.begin):
            self._held, self.thinking = text[len(self._marks.begin) :], True
        elif self._marks.begin.startswith(text):
            return False
        else:
            self._bare = False  # an answer that never thought keeps its blanks
        self._undecided = False
        return True

    def _thought(self, parts: list[Delta]) -> bool:
        """Takes thoughts; True if one ends."""
        text, mark, rest = self._held.partition(self._marks.end)
        text = text[: len(text) if mark else could_begin(text, self._marks.end)].rstrip()
        self._put(parts, text)
        if mark:
            self._held, self.thinking, self._bare = rest, False, True
            return True
        self._held = self._held[len(text) :]
        if self._bare:
            self._held = self._held.lstrip()
        return False

    def _said(self, parts: list[Delta]) -> bool:
        """Takes what is said; True if another thought begins behind it."""
        text, mark, rest = self._held, "", ""
        if self._marks.strays:
            text, mark, rest = text.partition(self._marks.begin)
            held = (self._marks.begin, *self._marks.strays)
            end = len(text) if mark else min(could_begin(text, one) for one in held)
            text, rest = self._unmarked(text[:end]), rest or text[end:]
        self._put(parts, text)
        self._held = rest
        if mark:
            self.thinking = self._bare = True
        return mark != ""

    def _unmarked(self, text: str) -> str:
        return self._strays.sub("", text) if self._marks.strays else text

    def _put(self, parts: list[Delta], text: str) -> None:
        text = text.lstrip() if self._bare else text
        if text:
            between = "\n" if self._bare and self.thinking in self._kinds else ""
            parts.append(Delta(between + text, (), self.thinking))
            self._kinds.add(self.thinking)
            self._bare = False


def could_begin(text: str, mark: str) -> int:
    """Where the mark may have begun, if `text` could end within it; otherwise the length of `text`."""
    return next(
        (len(text) - n for n in range(min(len(text), len(mark) - 1), 0, -1) if mark.startswith(text[-n:])), len(text)
    )
