"""The input of /v1/responses, read: its items as the turns of a chat template."""

from collections.abc import Callable
from typing import Final

from ..refused import wrong
from .arguments import read_arguments
from .fields import Fields, shown
from .messages import ASSISTANT, CALL_ID, CALLS, ROLES, SYSTEM, THOUGHT, TOOL, USER, Message, call_of, turns

MESSAGE: Final = "message"
TEXTS: Final = {"input_text": "text", "output_text": "text", "text": "text", "refusal": "refusal"}  # and where it is
THOUGHTS: Final = {"reasoning_text": "text", "summary_text": "text"}


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
    return list(turns(messages))


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
    fields.needed("content")
    return {"role": ROLES[role], "content": _text(fields, "content", TEXTS)}


def _called(fields: Fields) -> Message:
    name, text = fields.needed_text("name"), fields.needed_text("arguments")
    try:
        call = call_of(name, fields.needed_text("call_id"), read_arguments(text or "{}"))
    except ValueError:
        raise wrong(fields.path("arguments"), "expected the JSON of an object") from None
    return {"role": ASSISTANT, "content": "", CALLS: [call]}


def _result(fields: Fields) -> Message:
    fields.needed("output")
    return {"role": TOOL, "content": _text(fields, "output", TEXTS), CALL_ID: fields.needed_text("call_id")}


def _thought(fields: Fields) -> Message:
    """What it thought, or if that was left out, what its summary says."""
    thought = _text(fields, "content", THOUGHTS) or _text(fields, "summary", THOUGHTS)
    return {"role": ASSISTANT, "content": "", THOUGHT: thought}


def _text(fields: Fields, name: str, kinds: dict[str, str]) -> str:
    """A string, or parts of these types; absent, it is empty."""
    if isinstance(fields.value(name), str):
        return fields.needed_text(name)
    said = ""
    for part in fields.each(name):
        kind = part.needed("type")
        if not isinstance(kind, str) or kind not in kinds:
            expected = " or ".join(map(repr, kinds))
            raise wrong(part.path("type"), f"{shown(kind)} is not supported, expected {expected}", "unsupported_value")
        said += part.needed_text(kinds[kind])
    return said


ITEMS: Final[dict[str, Callable[[Fields], Message]]] = {
    MESSAGE: _message,
    "function_call": _called,
    "function_call_output": _result,
    "reasoning": _thought,
}
