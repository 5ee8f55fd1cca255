"""How a model marks its calls of tools, read from its chat template, which writes the calls of earlier answers or tells
the model how to."""

import json
from enum import Enum, auto
from typing import Final, NamedTuple


class Form(Enum):
    """How a call is written (tool_calls.py shows each)."""

    JSON = auto()
    ACTIONS = auto()
    FUNCTIONS = auto()
    INVOKES = auto()
    PAIRS = auto()
    NAMED = auto()
    BRACED = auto()
    BLOCK = auto()
    SECTION = auto()
    PYTHON = auto()


IN_JSON: Final = '{"name":'
BRACE: Final = "{"
ACTION: Final = '{"tool_call_id": "'  # Cohere's: a list of these, with which call of the answer it is
ACTION_NAMED: Final = '", "tool_name":'
BLOCK_CALL: Final = "<｜tool▁call▁begin｜>"  # DeepSeek's: each call in a block of them
BLOCK_CALL_END: Final = "<｜tool▁call▁end｜>"
BLOCK_SIGN: Final = "<｜tool▁sep｜>"
FENCE: Final = "\n```json\n"
FENCE_END: Final = "\n```"
SECTION_CALL: Final = "<|tool_call_begin|>"  # Kimi's: the same with other marks, and a number behind the name
SECTION_CALL_END: Final = "<|tool_call_end|>"
SECTION_SIGN: Final = "<|tool_call_argument_begin|>"
SECTION: Final = "<|tool_calls_section_begin|>"
INVOKE: Final = '<invoke name="'  # MiniMax's
INVOKE_NAMED: Final = '">\n'


class CallMarks(NamedTuple):
    """Without an `end` a call lasts until the next one begins, or to the end of the answer. `bare`: an answer that is
    nothing but the JSON of a call is one, too. `before` and `after` stand around the name in a call's text."""

    begin: str
    end: str = ""
    bare: bool = False
    before: str = IN_JSON
    after: str = ', "arguments":'
    form: Form = Form.JSON

    def opening(self, name: str | None) -> str:
        """How a call begins, of this tool or of any."""
        mark = "" if self.bare else self.begin
        if name is None:
            return mark + self.before
        written = f" {json.dumps(name)}" if self.form in (Form.JSON, Form.ACTIONS) else name
        return mark + self.before + written + self.after


def call_marks_of(template: str) -> CallMarks | None:
    """For the source of a chat template; None if it does not offer tools in any of the known ways."""
    marks = next((marks for sign, marks in KNOWN if sign in template and "tools" in template), None)
    if marks is _BLOCK and FENCE.strip() in template:  # V3, R1
        return marks._replace(before=f"{BLOCK_CALL}function{BLOCK_SIGN}", after=FENCE)
    written = next((written for sign, written in WRITTEN if sign in template), None)
    if marks and marks.form is Form.JSON and written:
        before, after, form = written
        return marks._replace(before=before, after=after, form=form)
    return marks


_BLOCK: Final = CallMarks(
    "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", before=BLOCK_CALL, after=BLOCK_SIGN, form=Form.BLOCK
)
_LFM: Final = CallMarks("<|tool_call_start|>", "<|tool_call_end|>", before="[", after="(", form=Form.PYTHON)
_LIST: Final = '[{"name":'
KNOWN: Final = (
    ("<|tool_call>call:", CallMarks("<|tool_call>", "<tool_call|>", before="call:", after=BRACE, form=Form.BRACED)),
    (BLOCK_CALL, _BLOCK),  # DeepSeek
    (
        SECTION,
        CallMarks(
            SECTION, "<|tool_calls_section_end|>", before=f"{SECTION_CALL}functions.", after=":", form=Form.SECTION
        ),
    ),
    ("<seed:tool_call>", CallMarks("<seed:tool_call>", "</seed:tool_call>")),
    (
        "<minimax:tool_call>",
        CallMarks(
            "<minimax:tool_call>", "</minimax:tool_call>", before=f"\n{INVOKE}", after=INVOKE_NAMED, form=Form.INVOKES
        ),
    ),
    ("[TOOL_CALLS]", CallMarks("[TOOL_CALLS]", before=_LIST)),  # Mistral
    ("<|tool_call|>", CallMarks("<|tool_call|>", before=_LIST)),  # Granite 3
    (
        "<|START_ACTION|>",
        CallMarks(
            "<|START_ACTION|>",
            "<|END_ACTION|>",
            before=f"[\n    {ACTION}0{ACTION_NAMED}",
            after=', "parameters":',
            form=Form.ACTIONS,
        ),
    ),  # Command R7B, Command A
    ("<TOOLCALL>", CallMarks("<TOOLCALL>", "</TOOLCALL>", before=_LIST)),  # Nemotron Nano 2
    ("<|tool_call_start|>", _LFM),
    ("<|tool_list_start|>", _LFM),  # the first templates of LFM2
    ("<tool_call>", CallMarks("<tool_call>", "</tool_call>", before='\n{"name":')),  # Hermes, Qwen, GLM, Granite 4
    ("List of tools: ", _LFM),  # some of LFM2.5, which do not name the marks
    ("<function_calls>", CallMarks("<function_calls>", "</function_calls>", before="", after="(", form=Form.PYTHON)),
    (
        '{"name": function name, "parameters":',
        CallMarks("<|python_tag|>", bare=True, after=', "parameters":'),
    ),  # Llama 3
)
WRITTEN: Final = (
    ("<function=", ("\n<function=", ">\n", Form.FUNCTIONS)),
    ("{function-name}<arg_key>", ("", "", Form.PAIRS)),  # GLM 4.7
    ("<arg_key>", ("", "\n", Form.PAIRS)),
    ("[ARGS]", ("", "[ARGS]", Form.NAMED)),
)
