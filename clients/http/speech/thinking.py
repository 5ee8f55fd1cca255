"""Splits answers into reasoning and the answer itself, for models that mark it in their text. The blanks around a
thought are dropped."""

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
        self.thinking = begun
        self._undecided = not begun  # nothing but blanks came so far
        self._bare = True  # nothing of the current part was sent
        self._held = ""
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
        rest, self._held = self._held, ""
        if self.thinking:
            rest = rest.rstrip()
        elif self._bare and not self._undecided:  # blanks between a thought and an answer that did not come
            rest = rest.lstrip()
        last = [Delta(rest, (), self.thinking)] if rest else []
        return parts + self._told.rest(last, self.thinking)

    def _decided(self) -> list[Delta]:
        """The pieces of which it is known whether they are thoughts."""
        parts = []
        if self._undecided:
            text = self._held.lstrip()
            if text.startswith(self._marks.begin):
                self._held, self.thinking = text[len(self._marks.begin) :], True
            elif self._marks.begin.startswith(text):
                return []
            else:
                self._bare = False  # an answer that never thought keeps its blanks
            self._undecided = False
        if self.thinking:
            thought, mark, said = self._held.partition(self._marks.end)
            end = len(thought) if mark else could_begin(thought, self._marks.end)
            thought = thought[:end].rstrip()
            if sent := self._sent(thought, True):
                parts.append(sent)
            if not mark:
                self._held = self._held[len(thought) :] if sent or not self._bare else self._held.lstrip()
                return parts
            self._held, self.thinking, self._bare = said, False, True
        if sent := self._sent(self._held, False):
            parts.append(sent)
            self._held = ""
        return parts

    def _sent(self, text: str, thought: bool) -> Delta | None:
        text = text.lstrip() if self._bare else text
        if not text:
            return None
        self._bare = False
        return Delta(text, (), thought)


def could_begin(text: str, mark: str) -> int:
    """Where the mark may have begun, if `text` could end within it; otherwise the length of `text`."""
    return next(
        (len(text) - n for n in range(min(len(text), len(mark) - 1), 0, -1) if mark.startswith(text[-n:])), len(text)
    )
