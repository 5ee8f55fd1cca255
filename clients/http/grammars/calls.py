"""Calls of tools as rules of a grammar, in each of the forms that models were trained on (speech/tool_calls.py): the
name of a tool that was offered, and arguments by its schema."""

from collections.abc import Callable, Iterable
from json import dumps
from typing import Any, Final

from ..requests.tools import FUNCTION, Tools
from ..speech.call_marks import (
    ACTION,
    ACTION_NAMED,
    BLOCK_CALL_END,
    FENCE,
    FENCE_END,
    IN_JSON,
    INVOKE,
    SECTION_CALL_END,
    SECTION_SIGN,
    CallMarks,
    Form,
)
from ..speech.tool_calls import CALL_ID
from .arguments import ANY, BLANK, LINE, LINES, function_arguments, invoke_arguments, json_arguments, pair_arguments
from .braced import BracedRules
from .python_calls import PythonRules

INDENT: Final = r"/\s{0,8}/"
NUMBER: Final = "/[0-9]{1,4}/"  # which call of the conversation it is
ID: Final = "/[A-Za-z0-9_-]{1,64}/"
ID_IN_JSON: Final = r'(/, ?"id": ?"[A-Za-z0-9_-]{1,64}"/)?'
Mark = Callable[[str], str]
SchemaOf = Callable[[str], Any]  # of the arguments of a tool


class CallRules:
    """Of the tools of one request. `mark` writes a mark in Lark's notation: as the id of its token, or as text."""

    def __init__(self, marks: CallMarks, tools: Tools, mark: Mark, schema_of: SchemaOf) -> None:
        self._marks = marks
        self._tools = tools
        self._mark = mark
        self._schema_of = schema_of
        self._form = marks.form
        self._listed = marks.before.startswith("[")
        self._several = tools.several and not marks.bare

    def forced(self) -> list[str]:
        """Of an answer whose prompt has begun a call: up to the name, or behind it if only one may be called."""
        rules = self._rules(self._tools.must)
        first = "arguments_0" if len(self._tools.must) == 1 else "call"
        return [f"start: {first} {self._closing()} {self._more()}", *rules]

    def or_answer(self, answer: str) -> tuple[str, list[str]]:
        """Either the answer or calls, and the rules that these need."""
        bare = f" | {self._opening('')} call" if self._marks.bare else ""
        return f"({answer} | {self._whole()} {self._more()}{bare})", self._all()

    def among_text(self) -> tuple[str, list[str]]:
        """An answer that may say something, call tools, or both; and the rules that this needs. Where calls have no
        end, nothing is said behind them: it would belong to the call."""
        rules, again = self._all(), self._several and self._marks.end != ""
        if self._mark(self._marks.begin).startswith("<"):
            if again:
                return f"{ANY} ({self._whole()} {ANY})*", rules
            return f"{ANY} ({self._whole()} {self._more()})?", rules
        rules.append(f"said[lazy]: {ANY} {dumps(self._marks.begin)}")
        said = f"said {self._opening('')} call {self._closing()}"
        return f"({said})* {ANY}" if again else f"({said} {self._more()} | {ANY})", rules

    def _whole(self) -> str:
        return f"{self._opening(self._marks.begin)} call {self._closing()}"

    def _more(self) -> str:
        """Further calls, each with a mark of its own."""
        return f"({LINES} {self._whole()})*" if self._several and self._between() is None else ""

    def _between(self) -> str | None:
        """What stands between the calls behind one mark; None if there is one call only."""
        match self._form:
            case Form.BLOCK | Form.SECTION:
                return f"{LINES} {self._mark(self._marks.before)}"
            case Form.INVOKES:
                return f"{LINES} {dumps(INVOKE)}"
            case Form.ACTIONS:
                return f'{LINES} "," {INDENT} {dumps(ACTION)} {NUMBER} {dumps(ACTION_NAMED)}'
            case Form.PYTHON:
                return f'"," {BLANK}' if self._listed else dumps("\n")
        return f'"," {BLANK} {dumps(IN_JSON)}' if self._listed else None

    def _opening(self, begin: str) -> str:
        """What stands before a name."""
        before = self._marks.before.lstrip()
        written = self._mark(before) if self._form in (Form.BLOCK, Form.SECTION) else dumps(before) if before else ""
        return f"{self._mark(begin) if begin else ''} {LINES} {written}"

    def _closing(self) -> str:
        """What stands behind the arguments."""
        between = self._between()
        more = f"({between} call)*" if between is not None and self._several else ""
        end = f"{LINES} {self._mark(self._marks.end)}" if self._marks.end else ""
        closed = f'{LINES} "]"' if self._form is Form.ACTIONS else '"]"'
        return f"{more} {closed} {end}" if self._listed else f"{more} {end}"

    def _all(self) -> list[str]:
        return self._rules(one[FUNCTION]["name"] for one in self._tools.described)

    def _rules(self, names: Iterable[str]) -> list[str]:
        """`call`, and the arguments of each tool."""
        wanted = dict.fromkeys(names)
        calls, rules, lazy, braced, python = [], [], dict[str, str](), BracedRules(self._mark), PythonRules()
        for number, name in enumerate(wanted):
            calls.append(f"{self._name(name)} arguments_{number}")
            schema = self._schema_of(name)
            more: dict[str, str] = {}
            match self._form:
                case Form.JSON:
                    found = f'{json_arguments(schema)} {ID_IN_JSON if self._listed else ""} "}}"'
                case Form.ACTIONS:
                    found = f'{json_arguments(schema)} {LINES} "}}"'
                case Form.NAMED:
                    found = json_arguments(schema)
                case Form.BLOCK:
                    fence = dumps(FENCE_END) if self._marks.after == FENCE else ""
                    found = f"{json_arguments(schema)} {fence} {self._mark(BLOCK_CALL_END)}"
                case Form.SECTION:
                    arguments = json_arguments(schema)
                    found = f"{NUMBER} {self._mark(SECTION_SIGN)} {arguments} {self._mark(SECTION_CALL_END)}"
                case Form.BRACED:
                    found = braced.arguments(schema)
                case Form.PYTHON:
                    found = python.arguments(schema)
                case Form.FUNCTIONS:
                    found, more = function_arguments(schema)
                case Form.INVOKES:
                    found, more = invoke_arguments(schema)
                case Form.PAIRS:
                    found, more = pair_arguments(schema, self._mark)
            lazy |= more
            rules.append(f"arguments_{number}: {found}")
        rules += [*braced.rules, *python.rules, *(f"{name}[lazy]: {rule}" for name, rule in lazy.items())]
        return [f"call: {' | '.join(calls)}", *rules]

    def _name(self, name: str) -> str:
        """A name with what stands around it."""
        after = self._marks.after
        match self._form:
            case Form.JSON | Form.ACTIONS:
                return dumps(f" {dumps(name)}{after}")
            case Form.BLOCK:
                return f"{dumps(name)} {self._mark(after)}"
            case Form.NAMED:
                return f"{dumps(name)} ({self._mark(CALL_ID)} {ID})? {self._mark(after)}"
            case Form.PAIRS:
                return f"{dumps(name)} {LINE}"
        return dumps(name + after)
