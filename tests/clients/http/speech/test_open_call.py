"""Where a call goes on, though there stands what would end it."""

import time

import pytest
from paceline.clients.http.speech.call_marks import CallMarks, Form
from paceline.clients.http.speech.call_splitter import CallSplitter
from paceline.clients.http.speech.cutter import Delta
from paceline.clients.http.speech.open_call import OpenCall, form_of

from .test_tool_calls import offered

TAGGED = CallMarks("<tool_call>", "</tool_call>")


@pytest.mark.parametrize(
    ("text", "form", "more"),
    [
        ('{"name": "f", "arguments": {"x": "', Form.JSON, True),
        ('{"name": "f", "arguments": {"x": "\\"', Form.JSON, True),
        ('{"name": "f", "arguments": {"x": "\\\\"', Form.JSON, False),
        ('{"name": "f"', Form.JSON, False),
        ('{"x": "[ARGS]<arg_key>', Form.JSON, True),
        ('\n["', Form.JSON, True),
        ('f[ARGS]{"x": "', Form.NAMED, True),
        ('f[CALL_ID]a1b2c3d4e[ARGS]{"x": ""', Form.NAMED, False),
        ("[ARGS]", Form.NAMED, False),
        ("<function=f>\n<parameter=text>\n", Form.FUNCTIONS, True),
        (" <function=f>\n</function>\n", Form.FUNCTIONS, False),
        ("<function=f>\n<parameter=text>\n[ARGS]</function>\n", Form.FUNCTIONS, True),
        ('<function=f><parameter=text>"[ARGS]</parameter></function>', Form.FUNCTIONS, False),
        ("<function=f>", Form.FUNCTIONS, True),
        ('<invoke name="f">\n<parameter name="text">a</invoke>', Form.INVOKES, True),
        ('<invoke name="f">\n<parameter name="text">a</parameter>\n</invoke>\n', Form.INVOKES, False),
        ('<invoke name="f">', Form.INVOKES, True),
        ('f\n<arg_key>text</arg_key>\n<arg_value>"', Form.PAIRS, True),
        ("f<arg_key>text</arg_key><arg_value>[ARGS]</arg_value>", Form.PAIRS, False),
        ('call:f{text:<|"|>', Form.BRACED, True),
        ('call:f{text:<|"|>a"<|"|>', Form.BRACED, False),
        ('call:f{text:<|"|>a<|"|>,more:<|"|>[ARGS]', Form.BRACED, True),
        ("call:f{", Form.BRACED, False),
        ("call:f", Form.PAIRS, False),
        ('call:f[ARGS]{"x": "', Form.NAMED, True),
        ("f", Form.PAIRS, False),
        ("", Form.PAIRS, False),
    ],
)
def test_what_is_still_open(text: str, form: Form, more: bool) -> None:
    assert form_of(text) is form and OpenCall(0).at(text, len(text)) is more
    behind, call = f'"<tool_call>{text}', OpenCall(12)
    assert form_of(behind, 12) is form
    quarter = 12 + len(text) // 4
    call.at(behind, behind.find("</", quarter) if behind.find("</", quarter) > 0 else 12)
    assert call.at(behind, len(behind)) is more  # what was looked at before is known


@pytest.mark.parametrize(
    ("marks", "begun", "again"),
    [
        (TAGGED, '{"name": "f", "arguments": {"text": "', "</tool_call>"),
        (TAGGED, '{"name": "f", "arguments": {"text": "', '\\" x '),
        (CallMarks("[TOOL_CALLS]"), 'f[ARGS]{"text": "', "[TOOL_CALLS]"),
        (TAGGED, "<function=f>", "</tool_call>"),
        (TAGGED, "f<arg_key>text</arg_key><arg_value>", "</tool_call>"),
        (CallMarks("<|tool_call>", "<tool_call|>"), 'call:f{text:<|"|>', "<tool_call|>"),
        (TAGGED, "", "<tool_call>"),
    ],
)
def test_many_marks_take_no_time(marks: CallMarks, begun: str, again: str) -> None:
    """Quadratic, it would take many seconds, and all other streams would wait for it."""
    text = marks.begin + begun + again * 20_000 + marks.end
    splitter = CallSplitter(marks, offered("f"))
    started = time.thread_time()
    said = ""
    for start in range(0, len(text), 16):
        said += "".join(part.text for part in splitter.push(Delta(text[start : start + 16])))
    said += "".join(part.text for part in splitter.finish(Delta("")))
    assert said == text and time.thread_time() - started < 3
