"""What an answer has to match, as a grammar for the daemon: what the request asked for, behind what the model may write
before it. A thought may be anything up to its end; a model that was offered tools may call one instead.

Marks that are one token are named by its id: a text that spells one out is none."""

from collections.abc import Mapping
from json import dumps
from typing import Final

from ...protocol import Grammar
from ..harmony import CHANNEL, CONSTRAIN, ENDS, MESSAGE, ROLE, START, Words, mark_token
from .requests.tools import Tools
from .speech.call_marks import CallMarks
from .speech.thinking import Marks

ANY: Final = "/(?s:.*)/"
BLANKS: Final = r"/[ \n]{0,4}/"


class Held:
    """The grammars of a model's answers."""

    def __init__(
        self, words: Words, thoughts: Marks | None, calls: CallMarks | None, harmony: Mapping[int, str]
    ) -> None:
        self._words = words
        self._thoughts = thoughts
        self._calls = calls
        self._harmony = {mark: f"<[{token}]>" for token, mark in harmony.items()}

    def grammar(self, wanted: Grammar, prompt: str, tools: Tools | None) -> Grammar:
        """Of the answer to this prompt, as the chat template has made it."""
        if self._harmony:
            return _lark(self._messages(tools), wanted)
        before, rules = self._thought(prompt)
        if tools and self._calls:
            return _lark([f"start: {before} (answer | calls)", *rules, *self._called(self._calls, tools)], wanted)
        return _lark([f"start: {before} answer", *rules], wanted) if before else wanted

    def _thought(self, prompt: str) -> tuple[str, list[str]]:
        """What may stand before the answer, and the rules for it."""
        marks, text = self._thoughts, prompt.rstrip()
        if not marks or text.endswith(marks.end):
            return "", []
        until, rules = self._until(marks.end)
        if text.endswith(marks.begin):
            return f"{until} {BLANKS}", rules
        return f"({self._mark(marks.begin)} {until} {BLANKS})?", rules

    def _called(self, marks: CallMarks, tools: Tools) -> list[str]:
        """Calls, as free as without a format: whoever reads them says what is none."""
        begin, end = (mark and self._mark(mark) for mark in (marks.begin, marks.end))
        calls = f"({begin} {ANY} {f'({end} {BLANKS})?' if end.startswith('<') else ''})+"
        if not marks.bare:
            return [f"calls: {calls}"]
        names = [one["function"]["name"] for one in tools.described]
        known = {"name": {"enum": names}, "parameters": {"type": "object"}}
        bare = {"type": "object", "properties": known, "required": list(known), "additionalProperties": False}
        return [f"calls: {calls} | {Grammar.json(bare).rule}"]

    def _messages(self, tools: Tools | None) -> list[str]:
        """Harmony's: thoughts and remarks, each a message, and then the answer; or a call in place of it."""
        channel, message, start = (self._harmony[mark] for mark in (CHANNEL, MESSAGE, START))
        end = self._harmony[ENDS[0]]
        form = f'({self._harmony[CONSTRAIN]}? "json")?' if CONSTRAIN in self._harmony else ""
        last = f'{channel} "final" {"/ ?/ " + form if form else ""} {message} answer'
        aside = f'{channel} ("analysis" | "commentary") {message} {ANY} {end} {start} "{ROLE}"'
        rules = [f"start: aside* ({last}{' | call' if tools else ''})", f"aside: {aside}"]
        if tools:
            header = r"/[ a-z]{0,16}to=functions\.[^<]{1,160}/"
            more = self._harmony.get(CONSTRAIN, '""')
            rules.append(
                f"call: ({header} | {channel} {header}) ({channel} /[a-z ]+/)? ({more} /[a-z]+/)? {message} {ANY}"
            )
        return rules

    def _until(self, mark: str) -> tuple[str, list[str]]:
        """Anything up to this mark."""
        written = self._mark(mark)
        if written.startswith("<"):
            return f"{ANY} {written}", []
        return "thought", [f"thought[lazy]: {ANY} {written}"]

    def _mark(self, mark: str) -> str:
        token = mark_token(self._words, mark)
        return dumps(mark) if token is None else f"<[{token}]>"


def _lark(rules: list[str], wanted: Grammar) -> Grammar:
    return Grammar("lark", "\n".join([*rules, f"answer: {wanted.rule}"]))
