"""Calls of tools and the text around them, apart, however the answer comes in pieces."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paceline.clients.http.speech.call_marks import CallMarks
from paceline.clients.http.speech.call_splitter import CallSplitter
from paceline.clients.http.speech.cutter import Delta, Likely

from .test_tool_calls import offered

TAGGED = CallMarks("<tool_call>", "</tool_call>")
ENDLESS = CallMarks("[TOOL_CALLS]")
BRACED = CallMarks("<|tool_call>", "<tool_call|>", before="call:", after="{")
BARE = CallMarks("<|python_tag|>", bare=True)
TOOLS = offered("f", "g")
F, G = (json.dumps({"name": name, "arguments": {"text": "a"}}) for name in "fg")
OPEN = '<tool_call>{"name": "f</tool_call>'
QUOTED = '"[ARGS]</function>\n</tool_call>'
CUT_OFF = '<tool_call>\n{"name": "f", "arg'


def split(marks: CallMarks, pieces: Sequence[str], several: bool = True) -> list[Delta]:
    splitter = CallSplitter(marks, offered("f", "g", several=several))
    return [part for piece in pieces for part in splitter.push(Delta(piece))] + splitter.finish(Delta(""))


def told(parts: Sequence[Delta]) -> list[str]:
    """Each text as it is, and each call as its name behind an arrow."""
    found: list[str] = []
    for part in parts:
        if part.call:
            found.append(f"→{part.call.name}")
        elif found and not found[-1].startswith("→"):
            found[-1] += part.text
        else:
            found.append(part.text)
    return found


def cut(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.mark.parametrize(
    ("marks", "text", "expected"),
    [
        (TAGGED, f"<tool_call>\n{F}\n</tool_call>", ["→f"]),
        (TAGGED, f"I will look.\n\n<tool_call>\n{F}\n</tool_call>\n", ["I will look.", "→f"]),
        (TAGGED, f"<tool_call>{F}</tool_call>\n<tool_call>{G}</tool_call>", ["→f", "→g"]),
        (TAGGED, f"a <tool_call>{F}</tool_call> b <tool_call>{G}</tool_call> c ", ["a", "→f", "b", "→g", "c "]),
        (TAGGED, f"<tool_call>[{F}, {G}]</tool_call>", ["→f", "→g"]),
        (TAGGED, f"<tool_call>{F}", ["→f"]),
        (TAGGED, " Hello < tool \n", [" Hello < tool \n"]),
        (TAGGED, " \n", [" \n"]),
        (TAGGED, "", []),
        (TAGGED, "Hi. <tool_ca", ["Hi. <tool_ca"]),
        (TAGGED, f"Hi. {CUT_OFF}", [f"Hi. {CUT_OFF}"]),
        (TAGGED, f"Hi. <tool_call>no</tool_call>\n<tool_call>{F}</tool_call>", ["Hi. <tool_call>no</tool_call>", "→f"]),
        (TAGGED, f"<tool_call>{F}</tool_call>\n {CUT_OFF}", ["→f", CUT_OFF]),
        (TAGGED, f"The <tool_call> tag. <tool_call>{F}</tool_call>", ["The <tool_call> tag.", "→f"]),
        (TAGGED, f"The <tool_call> tag. <tool_call>{F}", ["The <tool_call> tag.", "→f"]),
        (TAGGED, f"{OPEN} <tool_call>{F}</tool_call>", [f"{OPEN} <tool_call>{F}</tool_call>"]),
        (TAGGED, f"<tool_call>f<arg_key>text</arg_key><arg_value>{QUOTED}</arg_value></tool_call>.", ["→f", "."]),
        (TAGGED, f"<tool_call><function=f><parameter=text>{QUOTED}</parameter></function></tool_call>.", ["→f", "."]),
        (TAGGED, f"</tool_call><tool_call>{F}</tool_call>", ["</tool_call>", "→f"]),
        (TAGGED, '<tool_call>{"name": "f", "arguments": {"text": "</tool_call>"}}</tool_call>.', ["→f", "."]),
        (TAGGED, "<tool_call><function=f><parameter=text>\n</tool_call>\n</parameter></function></tool_call>", ["→f"]),
        (TAGGED, "<tool_call>f\n<arg_key>text</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", ["→f"]),
        (ENDLESS, f"[TOOL_CALLS][{F}, {G}]", ["→f", "→g"]),
        (ENDLESS, 'Yes. [TOOL_CALLS]f[ARGS]{"x": 1}[TOOL_CALLS]g[ARGS]{}', ["Yes.", "→f", "→g"]),
        (ENDLESS, '[TOOL_CALLS]f[ARGS]{"x": "[TOOL_CALLS]"}', ["→f"]),
        (ENDLESS, '[TOOL_CALLS]f[ARGS]{"x": "[TOOL', ['[TOOL_CALLS]f[ARGS]{"x": "[TOOL']),
        (BRACED, "<|tool_call>call:f{}<tool_call|>", ["→f"]),
        (
            BRACED,
            'Hi. <|tool_call>call:f{a:1}<tool_call|><|tool_call>call:g{b:<|"|>c<|"|>}<tool_call|>',
            ["Hi.", "→f", "→g"],
        ),
        (BRACED, '<|tool_call>call:f{text:<|"|>"<tool_call|><|tool_call><|"|>}<tool_call|>.', ["→f", "."]),
        (BRACED, '<|tool_call>call:f{text:<|"|>a<tool_call|>', ['<|tool_call>call:f{text:<|"|>a<tool_call|>']),
        (BRACED, "<|tool_call>call:f{a:1}", ["→f"]),
        (BRACED, "Say <|tool_call> so. <|tool_call>call:f{}<tool_call|>", ["Say <|tool_call> so.", "→f"]),
        (BARE, F, ["→f"]),
        (BARE, '\n{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}\n', ["→f"]),
        (BARE, f"<|python_tag|>{F}", ["→f"]),
        (BARE, f"Hello. <|python_tag|>{F}", ["Hello.", "→f"]),
        (BARE, '{"name": "Ann", "arguments": {}}', ['{"name": "Ann", "arguments": {}}']),
        (BARE, ' {"age": 5} \n', [' {"age": 5} \n']),
        (BARE, f"Hello. {F}", [f"Hello. {F}"]),
    ],
)
def test_what_is_text_and_what_is_a_call(marks: CallMarks, text: str, expected: list[str]) -> None:
    for size in range(1, len(text) + 2):
        assert told(split(marks, cut(text, size))) == expected, size


def test_arguments_come_with_the_name() -> None:
    (one,) = split(TAGGED, [f"<tool_call>{F}</tool_call>"])
    assert one.call and (one.text, one.thought, json.loads(one.call.arguments)) == ("", False, {"text": "a"})


def test_what_is_known_leaves_at_once() -> None:
    splitter = CallSplitter(TAGGED, TOOLS)
    pieces = ("Hi", " ", "a<", "b", ". \n", "<tool_call>", F, "</tool_", "call>", "\n", f"<tool_call>{G}</tool_call>")
    assert [told(splitter.push(Delta(piece))) for piece in pieces] == [
        ["Hi"], [], [" a"], ["<b"], ["."], [], [], [], ["→f"], [], ["→g"],
    ]  # fmt: skip


def test_one_call_at_most() -> None:
    for text in (
        f"Hi. <tool_call>[{F}, {G}]</tool_call>",
        f"Hi. <tool_call>{F}</tool_call> b <tool_call>{G}</tool_call>",
    ):
        for size in (1, 7, 1000):
            splitter = CallSplitter(TAGGED, offered("f", "g", several=False))
            parts: list[Delta] = []
            for piece in cut(text, size):
                assert not splitter.done or told(parts) == ["Hi.", "→f"]
                parts += splitter.push(Delta(piece))
            assert told(parts + splitter.finish(Delta(" c"))) == ["Hi.", "→f"] and splitter.done


def test_thoughts_pass() -> None:
    splitter = CallSplitter(TAGGED, TOOLS)
    thought = Delta(f"<tool_call>{F}</tool_call>", (), True)
    assert splitter.push(thought) == [thought]
    assert told(splitter.push(Delta(f"<tool_call>{F}</tool_call>"))) == ["→f"]


def test_no_log_probability_is_lost() -> None:
    likely = [Likely(n, -1.0, ()) for n in range(7)]
    words = ["Hi", "\n", "<tool_call>", F, "</tool_call>", "\n", "<tool"]
    splitter = CallSplitter(TAGGED, TOOLS)
    parts = [part for n, word in enumerate(words) for part in splitter.push(Delta(word, (likely[n],)))]
    parts += splitter.finish(Delta(""))
    assert [one for part in parts for one in part.likely] == likely
    assert [part.likely for part in parts if part.call] == [tuple(likely[1:5])]
    alone = CallSplitter(TAGGED, TOOLS)
    assert alone.push(Delta("", (likely[0],))) == [] and alone.finish(Delta("")) == [Delta("", (likely[0],))]


PIECES = ["<tool_call>", "</tool_call>", F, '{"name"', '"', "<", "tool", "call>", "/", "a", " ", "\n"]


@given(st.lists(st.sampled_from(PIECES), max_size=12), st.lists(st.integers(1, 9), min_size=1), st.booleans())
def test_the_pieces_make_no_difference(words: list[str], sizes: list[int], several: bool) -> None:
    text, pieces = "".join(words), []
    rest, at = text, 0
    while rest:
        size = sizes[at % len(sizes)]
        pieces.append(rest[:size])
        rest, at = rest[size:], at + 1
    parts = split(TAGGED, pieces, several)
    assert told(parts) == told(split(TAGGED, [text], several))
    assert all(part.text or part.call for part in parts)
    if not any(part.call for part in parts):
        assert "".join(part.text for part in parts) == text


@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_call_that_the_prompt_has_begun(size: int) -> None:
    for marks, begun, rest, expected in (
        (TAGGED, '<tool_call>\n{"name": "f", "arguments":', ' {"text": "a"}}\n</tool_call>', ["→f"]),
        (TAGGED, '<tool_call>\n{"name":', G.removeprefix('{"name":') + "</tool_call>", ["→g"]),
        (BARE, '{"name": "f", "parameters":', " {}}", ["→f"]),
        (BRACED, "<|tool_call>call:f{", 'text:<|"|>a<|"|>}<tool_call|>', ["→f"]),
        (TAGGED, "<tool_call>f\n", "No.", ["<tool_call>f\nNo."]),
    ):
        splitter = CallSplitter(marks, TOOLS, begun)
        parts = [part for piece in cut(rest, size) for part in splitter.push(Delta(piece))]
        assert told(parts + splitter.finish(Delta(""))) == expected
