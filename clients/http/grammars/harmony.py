"""What gpt-oss may write, as rules of a grammar: thoughts, each a message, and then the answer, or a call.

A remark before a call is a part of what the user is told, so it may not stand before an answer in a format."""

from collections.abc import Iterable, Mapping
from json import dumps
from typing import Final

from ...harmony import CHANNEL, CONSTRAIN, ENDS, MESSAGE, ROLE, START
from ..requests.tools import FUNCTION, Tools
from .arguments import ANY, BLANK, json_arguments
from .calls import SchemaOf

TO: Final = "to=functions."


class HarmonyRules:
    def __init__(self, marks: Mapping[int, str]) -> None:
        written = {mark: f"<[{token}]>" for token, mark in marks.items()}
        self._channel, self._message, self._start = (written[mark] for mark in (CHANNEL, MESSAGE, START))
        self._end = written[ENDS[0]]
        self._json = f'({written[CONSTRAIN]}? "json")?' if CONSTRAIN in written else '"json"?'

    def answered(self, answer: str, tools: Tools | None, schema_of: SchemaOf | None) -> list[str]:
        """`answer` is what the final message must be."""
        message = f'{self._message} {ANY} {self._end} {self._start} "{ROLE}"'
        rules = [
            f"start: thought* ({'remark* ' if answer == ANY else ''}final{' | remark* call' if tools else ''})",
            f'thought: {self._channel} "analysis" {message}',
            f'remark: {self._channel} "commentary" {message}',
            f'final: {self._channel} "final" {BLANK} {self._json} {self._message} {answer}',
        ]
        if not tools or not schema_of:
            return rules
        return [*rules, *self._calls([one[FUNCTION]["name"] for one in tools.described], schema_of)]

    def forced(self, tools: Tools, schema_of: SchemaOf) -> list[str]:
        """Of an answer whose prompt has begun a call: up to the name, or to the arguments if only one may be called."""
        start = "arguments_0" if len(tools.must) == 1 else "function"
        return [f"start: {start}", *self._calls(tools.must, schema_of)]

    def _calls(self, names: Iterable[str], schema_of: SchemaOf) -> list[str]:
        wanted = [*dict.fromkeys(names)]
        behind = f'({self._channel} "commentary")? {BLANK} {self._json} {self._message}'
        functions = [f"{dumps(name)} {behind} arguments_{number}" for number, name in enumerate(wanted)]
        return [
            f'call: (" {TO}" | {self._channel} "commentary {TO}") function',
            f"function: {' | '.join(functions)}",
            *(f"arguments_{number}: {json_arguments(schema_of(name))}" for number, name in enumerate(wanted)),
        ]
