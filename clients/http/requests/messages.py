"""The messages of a chat, read: what a chat template takes of them."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from ..refused import wrong
from .arguments import read_arguments
from .fields import Fields, shown
from .tools import FUNCTION

SYSTEM, USER, ASSISTANT, TOOL = "system", "user", "assistant", "tool"
ROLES: Final = {SYSTEM: SYSTEM, "developer": SYSTEM, USER: USER, ASSISTANT: ASSISTANT, TOOL: TOOL}
TEXTS: Final = {"text": "text"}  # types of parts, and the field of each that has the text
THOUGHT, CALLS, CALL_ID = "reasoning_content", "tool_calls", "tool_call_id"  # as templates call them
Message = dict[str, Any]


def listed_messages(fields: Fields) -> list[Fields]:
    if not fields.needed("messages"):
        raise wrong("messages", "expected a list of at least one message", "invalid_type")
    return fields.each("messages")


def openai_message(fields: Fields) -> Message:
    role = fields.needed("role")
    if not isinstance(role, str) or role not in ROLES:
        raise wrong(fields.path("role"), f"{str(role)[:40]!r} is not supported, expected {', '.join(ROLES)}")
    fields.refuse({"function_call": (), "audio": ()})
    calls = list(_calls(fields)) if role == ASSISTANT else []
    content = fields.value("content") if role in (ASSISTANT, TOOL) else fields.needed("content")
    kinds = TEXTS | ({"refusal": "refusal"} if role == ASSISTANT else {})
    said = "" if content is None else text_of(content, fields.path("content"), kinds)
    message: Message = {"role": ROLES[role], "content": said}
    thought = fields.text(THOUGHT)
    message |= {} if thought is None else {THOUGHT: thought}
    message |= {CALL_ID: fields.needed_text(CALL_ID)} if role == TOOL else {}
    return message | ({CALLS: calls} if calls else {})


def turns(messages: Iterable[Message]) -> Iterator[Message]:
    """Consecutive messages of one role are merged into one turn: many templates refuse two, and models of the others
    were not trained on them. Their texts are joined by a newline. Results of tools stay apart."""
    for role, same in groupby(messages, itemgetter("role")):
        turn = list(same)
        if role == TOOL:
            yield from turn
            continue
        said, thought = ("\n".join(filter(None, (one.get(name) for one in turn))) for name in ("content", THOUGHT))
        calls = [call for one in turn for call in one.get(CALLS, ())]
        yield (
            {"role": role, "content": said}
            | ({THOUGHT: thought} if thought else {})
            | ({CALLS: calls} if calls else {})
        )


def systems_first(messages: Iterable[Message]) -> Iterator[Message]:
    """A system message in the midst of a conversation is taken as the user's: many templates refuse or lose one that is
    not the first, and to move it there would change the text before all that came since."""
    first = True
    for one in messages:
        first = first and one["role"] == SYSTEM
        yield one if first or one["role"] != SYSTEM else one | {"role": USER}


def call_of(name: str, number: str, arguments: Any) -> Message:
    """A call in an earlier answer."""
    return {"id": number, "type": FUNCTION, FUNCTION: {"name": name, "arguments": arguments}}


def earlier_call(function: Fields, number: str) -> Message:
    """A call that an answer made. Templates want its arguments as an object, not as its JSON."""
    name, text = function.needed_text("name"), function.needed_text("arguments")
    try:
        return call_of(name, number, read_arguments(text or "{}"))
    except ValueError:
        raise wrong(function.path("arguments"), "expected the JSON of an object") from None


def _calls(fields: Fields) -> Iterator[Message]:
    for call in fields.each(CALLS):
        if (kind := call.value("type")) not in (None, FUNCTION):
            raise wrong(call.path("type"), f"{shown(kind)} is not supported, expected {FUNCTION!r}")
        yield earlier_call(call.within(FUNCTION), call.needed_text("id"))


def text_of(content: object, path: str, kinds: Mapping[str, str] = TEXTS) -> str:
    """The text of a message: a string, or parts of these types, each with the field that has it."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise wrong(path, "expected a string or a list of parts", "invalid_type")
    parts = (Fields(part, f"{path}[{number}]") for number, part in enumerate(content))
    return "".join(text_of_part(part, kinds) for part in parts)


def text_of_part(fields: Fields, kinds: Mapping[str, str] = TEXTS, others: Collection[str] = ()) -> str:
    """Of one of these types; `others` could have stood there too."""
    kind = fields.needed("type")
    if not isinstance(kind, str) or kind not in kinds:
        expected = " or ".join(map(repr, (*kinds, *others)))
        raise wrong(fields.path("type"), f"{shown(kind)} is not supported, expected {expected}", "unsupported_value")
    return fields.needed_text(kinds[kind])
