"""Calls of tools as rules of a grammar, in each of the forms that models were trained on (speech/tool_calls.py): the
name of a tool that was offered, and arguments by its schema."""

from collections.abc import Callable, Iterable
from json import dumps
from typing import Final

from ..requests.tools import FUNCTION, Tools
from ..speech.call_marks import CallMarks
from ..speech.open_call import ARGUMENTS
from .arguments import ANY, function_arguments, json_arguments, pair_arguments

BLANK: Final = "/ ?/"
LINES: Final = r"/\s{0,2}/"
IN_JSON: Final = '{"name":'
Mark = Callable[[str], str]


class CallRules:
    """Of the tools of one request. `mark` writes a mark in Lark's notation: as the id of its token, or as text."""

    def __init__(self, marks: CallMarks, tools: Tools, mark: Mark) -> None:
        self._marks = marks
        self._tools = tools
        self._mark = mark
        self._json = marks.before.endswith(IN_JSON)
        self._listed = marks.before.startswith("[")
        self._several = tools.several and not marks.bare

    def forced(self) -> list[str]:
        """Of an answer whose prompt has begun a call: up to the name, or behind it if only one may be called."""
        rules = self._rules(self._tools.must)
        first = "arguments_0" if len(self._tools.must) == 1 else "call"
        more = f"({LINES} {self._opening(self._marks.begin)} call {self._closing()})*" if self._again else ""
        return [f"start: {first} {self._closing()} {more}", *rules]

    def among(self, answer: str | None) -> tuple[str, list[str]]:
        """An answer that may say something, call tools, or both, or if `answer` is given, is either that or calls; and
        the rules that this needs."""
        rules = self._rules(one[FUNCTION]["name"] for one in self._tools.described)
        whole = f"{self._opening(self._marks.begin)} call {self._closing()}"
        if answer:
            return f"({answer} | {whole} {f'({LINES} {whole})*' if self._again else ''})", rules
        if self._mark(self._marks.begin).startswith("<"):
            return f"{ANY} ({whole} {ANY})*" if self._several else f"{ANY} ({whole})?", rules
        rules.append(f"said[lazy]: {ANY} {dumps(self._marks.begin)}")
        said = f"said {self._opening('')} call {self._closing()}"
        return f"({said})* {ANY}" if self._several else f"({said} | {ANY})", rules

    @property
    def _again(self) -> bool:
        """Another call may follow, with a mark of its own."""
        return self._several and not self._listed

    def _opening(self, begin: str) -> str:
        """What stands before a name."""
        before = self._marks.before.lstrip()
        return f"{self._mark(begin) if begin else ''} {LINES} {dumps(before) if before else ''}"

    def _closing(self) -> str:
        """What stands behind the arguments."""
        more = f'("," {BLANK} {dumps(IN_JSON)} call)*' if self._listed and self._several else ""
        end = f"{LINES} {self._mark(self._marks.end)}" if self._marks.end else ""
        return f'{more} "]" {end}' if self._listed else end

    def _rules(self, names: Iterable[str]) -> list[str]:
        """`call`, and the arguments of each tool."""
        wanted = [*names]
        described = [one[FUNCTION] for one in self._tools.described if one[FUNCTION]["name"] in wanted]
        calls, rules, lazy = [], [], dict[str, str]()
        for number, one in enumerate(described):
            calls.append(f"{self._name(one['name'])} arguments_{number}")
            schema = self._tools.schema(one["name"])
            if self._json:
                found = f'{json_arguments(schema)} "}}"'
            elif self._marks.after == ARGUMENTS:
                found = json_arguments(schema)
            else:
                found, more = (pair_arguments if not self._marks.before else function_arguments)(schema, self._mark)
                lazy |= more
            rules.append(f"arguments_{number}: {found}")
        return [f"call: {' | '.join(calls)}", *rules, *(f"{name}[lazy]: {rule}" for name, rule in lazy.items())]

    def _name(self, name: str) -> str:
        """A name with what stands around it."""
        after = self._marks.after
        if self._json:
            return dumps(f" {dumps(name)}{after}")
        return f"{dumps(name)} {self._mark(after)}" if after == ARGUMENTS else dumps(name + after)
