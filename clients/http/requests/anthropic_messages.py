"""The messages of /v1/messages, read: their blocks as the turns of a chat template."""

from collections.abc import Iterator, Sequence
from typing import Final

from ..refused import wrong
from .fields import Fields
from .messages import (
    ASSISTANT,
    CALL_ID,
    CALLS,
    SYSTEM,
    THOUGHT,
    TOOL,
    USER,
    Message,
    call_of,
    listed_messages,
    systems_first,
    text_of,
    text_of_part,
    turns,
)

THOUGHTS: Final = ("thinking", "redacted_thinking")
CALL: Final = "tool_use"
RESULT: Final = "tool_result"


def anthropic_messages(fields: Fields, system: str) -> list[Message]:
    messages: list[Message] = [{"role": SYSTEM, "content": system}] if system else []
    messages += (message for one in listed_messages(fields) for message in _messages(one))
    found = list(turns(systems_first(messages)))
    if found[-1]["role"] == SYSTEM:
        raise wrong("messages", "none of them is the user's")
    if found[-1]["role"] == ASSISTANT:
        raise wrong("messages", "an answer that is begun already is not supported: the last must be the user's")
    return found


def _messages(fields: Fields) -> list[Message]:
    role = fields.needed("role")
    if role not in (USER, ASSISTANT, SYSTEM):
        raise wrong(fields.path("role"), f"{str(role)[:40]!r} is not supported, expected user, assistant or system")
    content = fields.needed("content")
    if not isinstance(content, list) or role == SYSTEM:
        return [{"role": role, "content": text_of(content, fields.path("content"))}]
    blocks = fields.each("content")
    return list(_user(blocks)) if role == USER else [_assistant(blocks)]


def _user(blocks: Sequence[Fields]) -> Iterator[Message]:
    """Each result of a tool is a message of its own."""
    said = ""
    for block in blocks:
        if block.value("type") != RESULT:
            said += text_of_part(block, others=(RESULT,))
            continue
        if said:
            yield {"role": USER, "content": said}
            said = ""
        given, failed = block.value("content"), block.flag("is_error")
        text = "" if given is None else text_of(given, block.path("content"))
        yield {"role": TOOL, "content": text or ("error" if failed else ""), CALL_ID: block.needed_text("tool_use_id")}
    if said or not any(block.value("type") == RESULT for block in blocks):
        yield {"role": USER, "content": said}


def _assistant(blocks: Sequence[Fields]) -> Message:
    said, thought, calls = "", "", []
    for block in blocks:
        kind = block.value("type")
        if kind in THOUGHTS:
            thought += block.text("thinking") or ""
        elif kind == CALL:
            arguments = block.within("input").all
            calls.append(call_of(block.needed_text("name"), block.needed_text("id"), arguments))
        else:
            said += text_of_part(block, others=(*THOUGHTS, CALL))
    return {"role": ASSISTANT, "content": said, THOUGHT: thought, CALLS: calls}
