"""What models write to call tools, read: the text between the marks, in the ways that models were trained on.

    {"name": "f", "arguments": {"x": 1}}                     most; also a list of these, or parameters for arguments
    <function=f>\n<parameter=x>\n1\n</parameter>\n</function>    Qwen 3 Coder, Qwen 3.5, Seed-OSS
    <invoke name="f">\n<parameter name="x">1</parameter>\n</invoke>    MiniMax
    f\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>            GLM 4.5 and later
    f[ARGS]{"x": 1}                                          Mistral
    [{"tool_call_id": "0", "tool_name": "f", "parameters": {"x": 1}}]    Command R7B, Command A
    call:f{x:1,y:<|"|>text<|"|>}                             Gemma 4
    <｜tool▁call▁begin｜>f<｜tool▁sep｜>{"x": 1}<｜tool▁call▁end｜>     DeepSeek; V3 and R1 put a fence around it
    <|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"x": 1}<|tool_call_end|>    Kimi
    f(x=1, y="text")                                         LFM2, in a list; OLMo 3

The first kind is JSON, and so is Cohere's. In the second, third and fourth an argument is bare text, and the tool's own
description says whether it is a string. What is none of these is no call: it is text that the model wrote."""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..requests.arguments import check_depth, read_arguments, read_next, read_value
from ..requests.tools import Tools
from .braced import read_braced
from .call_marks import BLOCK_CALL_END, SECTION_CALL_END, Form
from .literals import PYTHONS
from .open_call import ARGUMENTS, BLOCK, BRACED, FUNCTION, FUNCTION_END, INVOKE, INVOKE_END, KEY, SECTION, form_of
from .python_calls import read_python

PARAMETER: Final = re.compile(r"<parameter=([^>\n]+)>(.*?)</parameter>\s*(?=<parameter=|</function>)", re.DOTALL)
INVOKED: Final = re.compile(
    r'<parameter name="([^"\n]+)">(.*?)</parameter>\s*(?=<parameter name=|</invoke>)', re.DOTALL
)
ARGUMENT: Final = re.compile(
    r"\s*<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)</arg_value>\s*(?=<arg_key>|\Z)", re.DOTALL
)
BLOCK_BEHIND: Final = re.compile(rf"\s*(?:```)?\s{{0,8}}(?:{BLOCK_CALL_END}\s*|\Z)")
SECTION_BEHIND: Final = re.compile(rf"\s*(?:{re.escape(SECTION_CALL_END)}\s*|\Z)")
CALL_ID: Final = "[CALL_ID]"
BETWEEN: Final = re.compile(r"[\s;,]*")  # calls that are not in a list
HALF_PAIR: Final = re.compile("[\ud800-\udfff]")


class Call(NamedTuple):
    """`arguments` is the JSON of an object."""

    name: str
    arguments: str


class NoCall(Exception):
    """The text is no call in any of the known ways."""


def read_calls(text: str, tools: Tools, python: bool = False) -> list[Call]:
    """At least one. `python`: the model was told to write Python's calls. Raises NoCall."""
    text = text.strip()
    try:
        calls = [call(name, arguments) for name, arguments in _read(text, tools, python)]
    except ValueError:
        raise NoCall(text) from None
    if not calls:
        raise NoCall(text)
    return calls


def call(name: str, arguments: Mapping[str, Any]) -> Call:
    """JSON can spell half of a surrogate pair, which is no character and could not be sent. Raises ValueError."""
    check_depth(arguments)
    name, text = (HALF_PAIR.sub("\ufffd", one) for one in (name, json.dumps(arguments, ensure_ascii=False)))
    return Call(name, text)


def _read(text: str, tools: Tools, python: bool) -> Iterator[tuple[str, Mapping[str, Any]]]:
    match form_of(text, python=python):
        case Form.JSON:
            yield from _json(text, tools)
        case Form.FUNCTIONS:
            yield from _functions(text, tools, FUNCTION, PARAMETER, FUNCTION_END)
        case Form.INVOKES:
            yield from _functions(text, tools, INVOKE, INVOKED, INVOKE_END)
        case Form.NAMED:
            name, _, arguments = text.partition(ARGUMENTS)
            yield _named(name.partition(CALL_ID)[0]), read_arguments(arguments)
        case Form.BRACED:
            yield _braced(text)
        case Form.BLOCK:
            yield from _block(text, BLOCK, BLOCK_BEHIND)
        case Form.SECTION:
            yield from _block(text, SECTION, SECTION_BEHIND)
        case Form.PAIRS:
            yield _pairs(text, tools)
        case Form.PYTHON:
            yield from read_python(text)


def _braced(text: str) -> tuple[str, Mapping[str, Any]]:
    begin = _match(BRACED, text, 0)
    arguments, end = read_braced(text, begin.end())
    if text[end:].strip():
        raise NoCall(text)
    return _named(begin[1]), arguments


def _block(text: str, before: re.Pattern[str], behind: re.Pattern[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    at = 0
    while at < len(text):
        begin = _match(before, text, at)
        arguments, end = read_next(text, begin.end())
        at = _match(behind, text, end).end()
        yield _named(begin[1]), arguments


def _json(text: str, tools: Tools) -> Iterator[tuple[str, Mapping[str, Any]]]:
    at = 0
    while at < len(text):
        found, at = read_next(text, at)
        at = _match(BETWEEN, text, at).end()
        for one in found if isinstance(found, list) else [found]:
            yield _call_of(one, tools)


def _call_of(value: Any, tools: Tools) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(value, dict):
        raise NoCall(value)
    name = _named(value.get("name", value.get("tool_name")))
    given = [value[key] for key in ("arguments", "parameters") if key in value]
    if not given and not tools.has(name):
        raise NoCall(value)
    arguments = given[0] if given and given[0] is not None else {}
    if isinstance(arguments, str):  # once more encoded
        arguments = read_arguments(arguments)
    if not isinstance(arguments, dict):
        raise NoCall(value)
    return name, arguments


def _functions(
    text: str, tools: Tools, function: re.Pattern[str], parameter: re.Pattern[str], end: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    at = 0
    while at < len(text):
        begin = _match(function, text, at)
        name, at = _named(begin[1]), begin.end()
        arguments = {}
        while not text.startswith(end, at):
            found = _match(parameter, text, at)
            key, value = found[1].strip(), found[2]
            if parameter is PARAMETER and value.startswith("\n"):  # on lines of its own
                value = value[1:].removesuffix("\n")
            arguments[key] = _value(value, tools, name, key)
            at = found.end()
        yield name, arguments
        at += len(end)


def _pairs(text: str, tools: Tools) -> tuple[str, Mapping[str, Any]]:
    """A name and the arguments after it: without any it is a line of its own."""
    name, key, _ = text.partition(KEY)
    at, arguments = len(name), {}
    name = _named(name)
    if not key and not tools.has(name):
        raise NoCall(text)
    while at < len(text):
        found = _match(ARGUMENT, text, at)
        arguments[found[1].strip()] = _value(found[2], tools, name, found[1].strip())
        at = found.end()
    return name, arguments


def _value(text: str, tools: Tools, name: str, parameter: str) -> Any:
    """Bare text is JSON, or what Python writes for it, unless it is for a string, or is neither."""
    types = tools.types(name, parameter)
    if "string" in types:
        return None if "null" in types and text in ("null", "None") else text
    try:
        return read_value(text)
    except ValueError:
        return PYTHONS[text] if text in PYTHONS else _pythons(text)


def _pythons(text: str) -> Any:
    """A list or an object as Python writes it; any other text as it is."""
    try:
        found = ast.literal_eval(text) if text.startswith(("[", "{")) else text
        return read_value(json.dumps(found))  # sets and bytes are no JSON
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text


def _named(name: Any) -> str:
    if not isinstance(name, str) or not name.strip() or "\n" in name.strip():
        raise NoCall(name)
    return name.strip()


def _match(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str]:
    found = pattern.match(text, at)
    if found is None:
        raise NoCall(text)
    return found
