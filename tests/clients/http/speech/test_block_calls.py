"""Calls as DeepSeek's and Kimi's models write them: a block of them, each with marks of its own."""

import json
import time
from typing import Any

import pytest
from paceline.clients.http.speech.call_marks import (
    BLOCK_CALL,
    BLOCK_CALL_END,
    BLOCK_SIGN,
    SECTION,
    SECTION_CALL,
    SECTION_CALL_END,
    SECTION_SIGN,
    Form,
    call_marks_of,
)
from paceline.clients.http.speech.open_call import OpenCall, form_of
from paceline.clients.http.speech.tool_calls import NoCall, read_calls

from .test_call_splitter import cut, split, told
from .test_tool_calls import offered

TEMPLATE = f"tools {BLOCK_CALL}{BLOCK_SIGN}"
MARKS, FENCED = call_marks_of(TEMPLATE), call_marks_of(f"{TEMPLATE}```json")
KIMI = call_marks_of(f"tools {SECTION}")
assert MARKS and FENCED and KIMI
OTHER = MARKS.end
NESTED = "[" * 65 + "]" * 65


def as_block(name: str, arguments: dict[str, Any]) -> str:
    return f"{BLOCK_CALL}{name}{BLOCK_SIGN}{json.dumps(arguments, ensure_ascii=False)}{BLOCK_CALL_END}"


def as_fenced(name: str, arguments: dict[str, Any]) -> str:
    text = json.dumps(arguments, ensure_ascii=False)
    return f"{BLOCK_CALL}function{BLOCK_SIGN}{name}\n```json\n{text}\n```{BLOCK_CALL_END}"


def as_section(name: str, arguments: dict[str, Any]) -> str:
    text = json.dumps(arguments, ensure_ascii=False)
    return f"{SECTION_CALL}functions.{name}:12{SECTION_SIGN}{text}{SECTION_CALL_END}"


def read(text: str) -> list[tuple[str, Any]]:
    return [(one.name, json.loads(one.arguments)) for one in read_calls(text, offered("f", "g"))]


def test_how_a_call_begins() -> None:
    assert MARKS.opening("f") == f"{MARKS.begin}{BLOCK_CALL}f{BLOCK_SIGN}"
    assert MARKS.opening(None) == f"{MARKS.begin}{BLOCK_CALL}"
    assert FENCED.opening("f") == f"{MARKS.begin}{BLOCK_CALL}function{BLOCK_SIGN}f\n```json\n"
    assert FENCED.opening(None) == f"{MARKS.begin}{BLOCK_CALL}function{BLOCK_SIGN}"
    assert call_marks_of(TEMPLATE.removeprefix("tools")) is None
    assert KIMI.opening("f") == f"{SECTION}{SECTION_CALL}functions.f:"
    assert KIMI.opening(None) == f"{SECTION}{SECTION_CALL}functions."


@pytest.mark.parametrize("write", [as_block, as_fenced, as_section])
def test_calls_are_read(write: Any) -> None:
    arguments = {"text": f'a "b" {BLOCK_CALL_END}{SECTION_CALL_END}```{OTHER}\n', "number": 5}
    assert read(write("f", arguments)) == [("f", arguments)]
    assert read(f"\n{write('f', arguments)}\n{write('g', {})}\n") == [("f", arguments), ("g", {})]
    assert read(write("function", {})) == [("function", {})]
    end = SECTION_CALL_END if write is as_section else BLOCK_CALL_END
    assert read(write("f", {}).removesuffix(end)) == [("f", {})]  # cut off


@pytest.mark.parametrize(
    "text",
    [
        f'{BLOCK_CALL}f{BLOCK_SIGN}\n{{"text":\n"a"}}\n{BLOCK_CALL_END}',
        f'{BLOCK_CALL}function{BLOCK_SIGN}f\n```\n{{"text": "a"}}```\n{BLOCK_CALL_END}',
        f'{BLOCK_CALL}function{BLOCK_SIGN}f\n{{"text": "a"}}{BLOCK_CALL_END}',
        f'{BLOCK_CALL}f{BLOCK_SIGN}```json\n{{"text": "a"}}\n```{BLOCK_CALL_END}',
        f'{SECTION_CALL}f{SECTION_SIGN}\n{{"text": "a"}}\n{SECTION_CALL_END}',
        f'{SECTION_CALL} functions.f:0 {SECTION_SIGN} {{"text": "a"}}',
    ],
)
def test_what_models_make_of_it_is_read(text: str) -> None:
    assert read(text) == [("f", {"text": "a"})]


@pytest.mark.parametrize(
    "text",
    [
        BLOCK_CALL,
        f"{BLOCK_CALL}f{BLOCK_SIGN}",
        f"{BLOCK_CALL}f{BLOCK_SIGN}5{BLOCK_CALL_END}",
        f'{BLOCK_CALL}f{BLOCK_SIGN}{{"text": {BLOCK_CALL_END}',
        f"{BLOCK_CALL}{BLOCK_SIGN}{{}}{BLOCK_CALL_END}",
        f"{as_block('f', {})} and then",
        f"{as_block('f', {})}{BLOCK_CALL}",
        SECTION_CALL,
        f"{SECTION_CALL}functions.f:0{SECTION_SIGN}",
        f"{SECTION_CALL}functions.f:0{{}}{SECTION_CALL_END}",
        f"{SECTION_CALL}{SECTION_SIGN}{{}}{SECTION_CALL_END}",
        f"{as_section('f', {})} and then",
        f'{BLOCK_CALL}f{BLOCK_SIGN}{{"text": {NESTED}}}{BLOCK_CALL_END}',
    ],
)
def test_what_is_no_call(text: str) -> None:
    with pytest.raises(NoCall):
        read(text)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("write", [as_block, as_fenced, as_section])
def test_calls_in_pieces(write: Any, size: int) -> None:
    marks = {as_block: MARKS, as_fenced: FENCED, as_section: KIMI}[write]
    assert marks
    block = f"{marks.begin}{write('f', {'text': marks.end})}\n{write('g', {})}{marks.end}"
    assert told(split(marks, cut(f"I will look.\n\n{block}\n", size))) == ["I will look.", "→f", "→g"]
    assert told(split(marks, cut(block, size), several=False)) == ["→f"]
    assert told(split(marks, cut(block.removesuffix(marks.end), size))) == ["→f", "→g"]
    wrong = f"{marks.begin}{SECTION_CALL if write is as_section else BLOCK_CALL}f{marks.end}"
    assert told(split(marks, cut(wrong, size))) == [wrong]


def test_what_is_still_open() -> None:
    text = f'{BLOCK_CALL}f{BLOCK_SIGN}{{"text": "'
    assert form_of(text) is form_of(BLOCK_CALL) is Form.BLOCK
    assert OpenCall(0).at(text, len(text)) and not OpenCall(0).at(f'{text}"', len(text) + 1)


def test_a_name_may_look_like_what_stands_around_it() -> None:
    assert read(as_section("functions.a:5", {})) == [("functions.a:5", {})]


@pytest.mark.parametrize("begin", [BLOCK_CALL, SECTION_CALL])
@pytest.mark.parametrize(
    "text", [" " * 100_000, f"f{' ' * 100_000}", "x" * 100_000, f"f{BLOCK_SIGN}" * 20_000, ":1" * 50_000]
)
def test_what_is_long_and_no_call_takes_no_time(begin: str, text: str) -> None:
    began = time.process_time()
    with pytest.raises(NoCall):
        read(begin + text)
    assert time.process_time() - began < 1
