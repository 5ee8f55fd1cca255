"""How a model marks its calls of tools, read from its chat template, which writes the calls of earlier answers or tells
the model how to."""

import json
from typing import Final, NamedTuple

IN_JSON: Final = '{"name":'
BRACE: Final = "{"
BLOCK_CALL: Final = "<｜tool▁call▁begin｜>"  # DeepSeek's: each call in a block of them
BLOCK_CALL_END: Final = "<｜tool▁call▁end｜>"
BLOCK_SIGN: Final = "<｜tool▁sep｜>"
FENCE: Final = "\n```json\n"
FENCE_END: Final = "\n```"


class CallMarks(NamedTuple):
    """Without an `end` a call lasts until the next one begins, or to the end of the answer. `bare`: an answer that is
    nothing but the JSON of a call is one, too. `before` and `after` stand around the name in a call's text."""

    begin: str
    end: str = ""
    bare: bool = False
    before: str = IN_JSON
    after: str = ', "arguments":'

    def opening(self, name: str | None) -> str:
        """How a call begins, of this tool or of any."""
        mark = "" if self.bare else self.begin
        if name is None:
            return mark + self.before
        in_json = self.before.endswith(IN_JSON)
        return mark + self.before + (f" {json.dumps(name)}" if in_json else name) + self.after


def call_marks_of(template: str) -> CallMarks | None:
    """For the source of a chat template; None if it does not offer tools in any of the known ways."""
    marks = next((marks for sign, marks in KNOWN if sign in template and "tools" in template), None)
    around = next((around for sign, around in AROUND_NAMES if sign in template), None)
    if marks is _BLOCK and FENCE.strip() in template:  # V3, R1
        return marks._replace(before=f"{BLOCK_CALL}function{BLOCK_SIGN}", after=FENCE)
    return marks._replace(before=around[0], after=around[1]) if marks and around else marks


_BLOCK: Final = CallMarks("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", before=BLOCK_CALL, after=BLOCK_SIGN)
_TAGGED: Final = CallMarks("<tool_call>", "</tool_call>", before='\n{"name":')
_LIST: Final = '[{"name":'
KNOWN: Final = (
    ("<|tool_call>call:", CallMarks("<|tool_call>", "<tool_call|>", before="call:", after=BRACE)),  # Gemma 4
    (BLOCK_CALL, _BLOCK),  # DeepSeek
    ("<seed:tool_call>", CallMarks("<seed:tool_call>", "</seed:tool_call>")),
    ("[TOOL_CALLS]", CallMarks("[TOOL_CALLS]", before=_LIST)),  # Mistral
    ("<|tool_call|>", CallMarks("<|tool_call|>", before=_LIST)),  # Granite 3
    ("<tool_call>", _TAGGED),  # Hermes, Qwen, GLM, Granite 4
    (
        '{"name": function name, "parameters":',
        CallMarks("<|python_tag|>", bare=True, after=', "parameters":'),
    ),  # Llama 3
)
AROUND_NAMES: Final = (
    ("<function=", ("\n<function=", ">\n")),
    ("{function-name}<arg_key>", ("", "")),  # GLM 4.7
    ("<arg_key>", ("", "\n")),
    ("[ARGS]", ("", "[ARGS]")),
)
