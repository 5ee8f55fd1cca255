"""What gpt-oss may write, as rules of a grammar: thoughts, each a message, and then the answer, or a call.

A remark before a call is a part of what the user is told, so it may not stand before an answer in a format."""

from collections.abc import Mapping
from json import dumps
from typing import Final

from ...harmony import CHANNEL, CONSTRAIN, ENDS, MESSAGE, ROLE, START
from ..requests.tools import FUNCTION, Tools
from .arguments import ANY, BLANK, json_arguments

TO: Final = "to=functions."
FREE_HEADER: Final = r"/[ a-z]{0,16}to=functions\.[^<]{1,160}/"


class HarmonyRules:
    def __init__(self, marks: Mapping[int, str]) -> None:
        written = {mark: f"<[{token}]>" for token, mark in marks.items()}
        self._channel, self._message, self._start = (written[mark] for mark in (CHANNEL, MESSAGE, START))
        self._end = written[ENDS[0]]
        self._json = f'({written[CONSTRAIN]}? "json")?' if CONSTRAIN in written else '"json"?'

    def answered(self, answer: str, tools: Tools | None) -> list[str]:
        """`answer` is what the final message must be. Calls of tools are free, if none is held to its schema."""
        call = "" if tools is None else " | remark* call" if tools.strict else " | remark* free_call"
        message = f'{self._message} {ANY} {self._end} {self._start} "{ROLE}"'
        rules = [
            f"start: thought* ({'remark* ' if answer == ANY else ''}final{call})",
            f'thought: {self._channel} "analysis" {message}',
            f'remark: {self._channel} "commentary" {message}',
            f'final: {self._channel} "final" {BLANK} {self._json} {self._message} {answer}',
        ]
        if tools and tools.strict:
            return [*rules, *self._calls(tools, [one[FUNCTION]["name"] for one in tools.described])]
        if tools:
            header = f"({FREE_HEADER} | {self._channel} {FREE_HEADER}) ({self._channel} /[a-z ]+/)?"
            rules.append(f"free_call: {header} {self._json} {self._message} {ANY}")
        return rules

    def forced(self, tools: Tools) -> list[str]:
        """Of an answer whose prompt has begun a call: up to the name, or to the arguments if only one may be called."""
        start = "arguments_0" if len(tools.must) == 1 else "function"
        return [f"start: {start}", *self._calls(tools, tools.must)]

    def _calls(self, tools: Tools, names: tuple[str, ...] | list[str]) -> list[str]:
        behind = f'({self._channel} "commentary")? {BLANK} {self._json} {self._message}'
        functions = [f"{dumps(name)} {behind} arguments_{number}" for number, name in enumerate(names)]
        return [
            f'call: (" {TO}" | {self._channel} "commentary {TO}") function',
            f"function: {' | '.join(functions)}",
            *(f"arguments_{number}: {json_arguments(tools.schema(name))}" for number, name in enumerate(names)),
        ]
