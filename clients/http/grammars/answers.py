"""What an answer has to match, as a grammar for the daemon: what the request asked for, behind what the model may write
before it. A thought may be anything up to its end; a model that was offered tools may call one instead.

Marks that are one token are named by its id: a text that spells one out is none."""

import re
from collections.abc import Mapping
from functools import partial
from json import dumps
from typing import Final

from ....protocol import Grammar
from ...harmony import Words, mark_token
from ...thoughts import Marks
from ..refused import wrong
from ..requests.holds import Hold
from ..requests.tools import Tools
from ..speech.call_marks import CallMarks
from .arguments import ANY
from .calls import CallRules, SchemaOf
from .harmony import HarmonyRules

BLANKS: Final = r"/[ \n]{0,4}/"
TOKEN: Final = re.compile(r"(<[^<>\s]+>)")


class Held:
    """The grammars of a model's answers."""

    def __init__(
        self, words: Words, thoughts: Marks | None, calls: CallMarks | None, harmony: Mapping[int, str]
    ) -> None:
        self._words = words
        self._thoughts = thoughts
        self._calls = calls
        self._harmony = HarmonyRules(harmony) if harmony else None

    def grammar(
        self, wanted: Grammar | None, prompt: str, tools: Tools | None, begun: bool, hold: Hold = Hold.GIVEN
    ) -> Grammar | None:
        """Of the answer to this prompt, as the chat template has made it; None if it may be anything. `begun`: the
        prompt has begun a call, and no format is held to then. `hold`: to what tools that are not strict are held.
        Raises HttpRefused."""
        try:
            if tools and begun:
                return self._forced(tools, partial(tools.schema, hold=hold))
            strict = bool(tools and tools.strict and not (self._calls and self._calls.bare))
            return self._answer(wanted, prompt, tools, strict, hold) if wanted or strict else None
        except (ValueError, RecursionError) as problem:
            told = {RecursionError: "is nested too deep", UnicodeEncodeError: "holds half of a surrogate pair"}
            raise wrong("tools", told.get(type(problem), str(problem))) from None

    def _forced(self, tools: Tools, schema_of: SchemaOf) -> Grammar:
        if self._harmony:
            return _lark(self._harmony.forced(tools, schema_of))
        assert self._calls is not None  # it began the call
        return _lark(CallRules(self._calls, tools, self._mark, schema_of).forced())

    def _answer(self, wanted: Grammar | None, prompt: str, tools: Tools | None, strict: bool, hold: Hold) -> Grammar:
        rules = [f"answer: {wanted.rule}"] if wanted else []
        schema_of = partial(tools.schema, hold=hold if strict else Hold.TYPE) if tools else None
        if self._harmony:
            return _lark([*self._harmony.answered("answer" if wanted else ANY, tools, schema_of), *rules])
        before, more = self._thought(prompt)
        if tools and self._calls and schema_of:
            calls = CallRules(self._calls, tools, self._mark, schema_of)
            said, called = calls.or_answer("answer") if wanted else calls.among_text()
            return _lark([f"start: {before} {said}", *more, *called, *rules])
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
        return f"({BLANKS} {self._mark(marks.begin)} {until} {BLANKS})?", rules

    def _until(self, mark: str) -> tuple[str, list[str]]:
        """Anything up to this mark."""
        written = self._mark(mark)
        if written.startswith("<"):
            return f"{ANY} {written}", []
        return "thought", [f"thought[lazy]: {ANY} {written}"]

    def _mark(self, mark: str) -> str:
        """In Lark's notation; of one with a text behind a token, such as <|channel>thought, both."""
        return " ".join(map(self._part, filter(None, TOKEN.split(mark))))

    def _part(self, part: str) -> str:
        token = mark_token(self._words, part)
        return dumps(part) if token is None else f"<[{token}]>"


def _lark(rules: list[str]) -> Grammar:
    return Grammar("lark", "\n".join(rules))
