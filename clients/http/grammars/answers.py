"""What an answer has to match, as a grammar for the daemon: what the request asked for, behind what the model may write
before it. A thought may be anything up to its end; a model that was offered tools may call one instead.

Marks that are one token are named by its id: a text that spells one out is none."""

from collections.abc import Mapping
from json import dumps
from typing import Final

from ....protocol import Grammar
from ...harmony import Words, mark_token
from ...thoughts import Marks
from ..refused import wrong
from ..requests.tools import FUNCTION, Tools
from ..speech.call_marks import CallMarks
from .arguments import ANY
from .calls import CallRules
from .harmony import HarmonyRules

BLANKS: Final = r"/[ \n]{0,4}/"


class Held:
    """The grammars of a model's answers."""

    def __init__(
        self, words: Words, thoughts: Marks | None, calls: CallMarks | None, harmony: Mapping[int, str]
    ) -> None:
        self._words = words
        self._thoughts = thoughts
        self._calls = calls
        self._harmony = HarmonyRules(harmony) if harmony else None

    def grammar(self, wanted: Grammar | None, prompt: str, tools: Tools | None, begun: bool) -> Grammar | None:
        """Of the answer to this prompt, as the chat template has made it; None if it may be anything. `begun`: the
        prompt has begun a call, and no format is held to then. Raises HttpRefused."""
        try:
            if tools and begun:
                return self._forced(tools)
            strict = bool(tools and tools.strict and not (self._calls and self._calls.bare))
            return self._answer(wanted, prompt, tools, strict) if wanted or strict else None
        except RecursionError:
            raise wrong("tools", "is nested too deep") from None

    def _forced(self, tools: Tools) -> Grammar:
        if self._harmony:
            return _lark(self._harmony.forced(tools))
        assert self._calls is not None  # it began the call
        return _lark(CallRules(self._calls, tools, self._mark).forced())

    def _answer(self, wanted: Grammar | None, prompt: str, tools: Tools | None, strict: bool) -> Grammar:
        answer = "answer" if wanted else ANY
        rules = [f"answer: {wanted.rule}"] if wanted else []
        if self._harmony:
            return _lark([*self._harmony.answered(answer, tools), *rules])
        before, more = self._thought(prompt)
        if tools and self._calls and strict:
            said, calls = CallRules(self._calls, tools, self._mark).among(answer if wanted else None)
            return _lark([f"start: {before} {said}", *more, *calls, *rules])
        if tools and self._calls:
            return _lark([f"start: {before} (answer | calls)", *more, *self._free(self._calls, tools), *rules])
        if not before and wanted:
            return wanted
        return _lark([f"start: {before} answer", *more, *rules])

    def _thought(self, prompt: str) -> tuple[str, list[str]]:
        """What may stand before the answer, and the rules for it."""
        marks, text = self._thoughts, prompt.rstrip()
        if not marks or text.endswith(marks.end):
            return "", []
        until, rules = self._until(marks.end)
        if text.endswith(marks.begin):
            return f"{until} {BLANKS}", rules
        return f"({self._mark(marks.begin)} {until} {BLANKS})?", rules

    def _free(self, marks: CallMarks, tools: Tools) -> list[str]:
        """Calls, as free as without a format: whoever reads them says what is none."""
        begin, end = (mark and self._mark(mark) for mark in (marks.begin, marks.end))
        calls = f"({begin} {ANY} {f'({end} {BLANKS})?' if end.startswith('<') else ''})+"
        if not marks.bare:
            return [f"calls: {calls}"]
        names = [one[FUNCTION]["name"] for one in tools.described]
        known = {"name": {"enum": names}, "parameters": {"type": "object"}}
        bare = {"type": "object", "properties": known, "required": list(known), "additionalProperties": False}
        return [f"calls: {calls} | {Grammar.json(bare).rule}"]

    def _until(self, mark: str) -> tuple[str, list[str]]:
        """Anything up to this mark."""
        written = self._mark(mark)
        if written.startswith("<"):
            return f"{ANY} {written}", []
        return "thought", [f"thought[lazy]: {ANY} {written}"]

    def _mark(self, mark: str) -> str:
        token = mark_token(self._words, mark)
        return dumps(mark) if token is None else f"<[{token}]>"


def _lark(rules: list[str]) -> Grammar:
    return Grammar("lark", "\n".join(rules))
