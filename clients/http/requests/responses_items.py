"""The input of /v1/responses, read: its items as the turns of a chat template."""

from collections.abc import Callable
from typing import Final

from ..refused import wrong
from .fields import Fields, shown
from .messages import (
    ASSISTANT,
    CALL_ID,
    CALLS,
    ROLES,
    SYSTEM,
    THOUGHT,
    TOOL,
    USER,
    Message,
    earlier_call,
    systems_first,
    text_of,
    text_of_part,
    turns,
)

MESSAGE: Final = "message"
# Types of parts, and the field of each that has the text.
SAID: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}
THOUGHT_IN: Final = {"reasoning_text": "text", "summary_text": "text"}


def input_turns(fields: Fields) -> list[Message]:
    instructions = fields.text("instructions")
    messages: list[Message] = [{"role": SYSTEM, "content": instructions}] if instructions else []
    given = fields.needed("input")
    if isinstance(given, str):
        messages.append({"role": USER, "content": given})
    elif not given:
        raise wrong("input", "expected a string or a list of at least one item", "invalid_type")
    else:
        messages += map(_item, fields.each("input"))
    return list(turns(systems_first(messages)))


def _item(fields: Fields) -> Message:
    kind = fields.value("type")
    if kind is None:
        kind = MESSAGE
    if not isinstance(kind, str) or kind not in ITEMS:
        expected = ", ".join(ITEMS)
        raise wrong(fields.path("type"), f"{shown(kind)} is not supported, expected {expected}", "unsupported_value")
    return ITEMS[kind](fields)


def _message(fields: Fields) -> Message:
    role = fields.needed("role")
    if not isinstance(role, str) or role not in ROLES or role == TOOL:
        expected = ", ".join(one for one in ROLES if one != TOOL)
        raise wrong(fields.path("role"), f"{shown(role)} is not supported, expected {expected}")
    return {"role": ROLES[role], "content": text_of(fields.needed("content"), fields.path("content"), SAID)}


def _called(fields: Fields) -> Message:
    call = earlier_call(fields, fields.needed_text("call_id"))
    return {"role": ASSISTANT, "content": "", CALLS: [call]}


def _result(fields: Fields) -> Message:
    said = text_of(fields.needed("output"), fields.path("output"), SAID)
    return {"role": TOOL, "content": said, CALL_ID: fields.needed_text("call_id")}


def _thought(fields: Fields) -> Message:
    """What it thought, or if that was left out, what its summary says."""
    parts = (fields.each(name) for name in ("content", "summary"))
    thoughts = ("".join(text_of_part(part, THOUGHT_IN) for part in each) for each in parts)
    return {"role": ASSISTANT, "content": "", THOUGHT: next(filter(None, thoughts), "")}


ITEMS: Final[dict[str, Callable[[Fields], Message]]] = {
    MESSAGE: _message,
    "function_call": _called,
    "function_call_output": _result,
    "reasoning": _thought,
}
