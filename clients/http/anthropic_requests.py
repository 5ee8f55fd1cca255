"""The body of /v1/messages, read."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from .asked import MOST_STOPS, Asked, Chat
from .fields import WHOLE, Fields, shown
from .openai_requests import text_of
from .refused import wrong

UNSUPPORTED: Final[dict[str, tuple[Any, ...]]] = {
    "tools": ([],),
    "tool_choice": ({"type": "none"},),
    "output_config": ({},),
    "output_format": (),
    "container": (),
    "mcp_servers": ([],),
}
THOUGHTS: Final = ("thinking", "redacted_thinking")
THOUGHT: Final = "reasoning_content"  # what a template calls it


def read_message(body: object, answered: bool = True) -> Asked:
    """If it is not to be `answered`, only its prompt counted, `max_tokens` is optional."""
    fields = Fields(body)
    fields.refuse(UNSUPPORTED)
    fields.text("model")
    if answered:
        fields.needed("max_tokens")
    given = fields.needed("messages")
    if not isinstance(given, list) or not given:
        raise wrong("messages", "expected a list of at least one message", "invalid_type")
    messages = [_message(Fields(one, f"messages[{number}]")) for number, one in enumerate(given)]
    if messages[-1]["role"] != "user":
        raise wrong("messages", "an answer that is begun already is not supported: the last must be the user's")
    turns = list(_turns(messages))
    given = fields.value("system")
    if system := "" if given is None else text_of(given, "system"):
        turns.insert(0, {"role": "system", "content": system})
    most = fields.integer("max_tokens", 1, WHOLE) or WHOLE
    temp, top_p = fields.real("temperature", 0, 1), fields.real("top_p", 0, 1)
    options = {
        "temp": 1.0 if temp is None else temp,
        "top_p": None if top_p is None else max(top_p, 1e-6),
        "top_k": fields.integer("top_k", 0, WHOLE),
    }
    return Asked(
        prompts=(Chat(tuple(turns), {"enable_thinking": _thinks(fields, most)}),),
        most=most,
        options={name: value for name, value in options.items() if value is not None},
        stop=fields.texts("stop_sequences", MOST_STOPS, one=False),
        stream=fields.flag("stream") or False,
    )


def _message(fields: Fields) -> dict[str, str]:
    role = fields.needed("role")
    if role not in ("user", "assistant"):
        raise wrong(fields.path("role"), f"{str(role)[:40]!r} is not supported, expected user or assistant")
    content = fields.needed("content")
    if role == "user" or not isinstance(content, list):
        return {"role": role, "content": text_of(content, fields.path("content"))}
    thought, said = "", []
    for number, part in enumerate(content):
        if isinstance(part, dict) and part.get("type") in THOUGHTS:
            thought += Fields(part, f"{fields.path('content')}[{number}]").text("thinking") or ""
            said.append({"type": "text", "text": ""})
        else:
            said.append(part)
    message = {"role": role, "content": text_of(said, fields.path("content"))}
    return message | ({THOUGHT: thought} if thought else {})


def _turns(messages: Sequence[dict[str, str]]) -> Iterator[dict[str, str]]:
    """Consecutive messages of one role are merged into one turn, as in Anthropic's API: many templates refuse two, and
    models of the others were not trained on them. Their texts are joined by a newline."""
    for role, same in groupby(messages, itemgetter("role")):
        turn = list(same)
        said, thought = ("\n".join(filter(None, (one.get(name) for one in turn))) for name in ("content", THOUGHT))
        yield {"role": role, "content": said} | ({THOUGHT: thought} if thought else {})


def _thinks(fields: Fields, most: int) -> bool:
    """Whether the model may think before it answers, if it can. Its budget is only a wish, as in Anthropic's API."""
    given = fields.value("thinking")
    if given is None:
        return False
    thinking = Fields(given, "thinking")
    if (kind := thinking.needed("type")) not in ("disabled", "enabled", "adaptive"):
        raise wrong(thinking.path("type"), f"{shown(kind)} is not supported, expected disabled, enabled or adaptive")
    if kind == "enabled":
        thinking.needed("budget_tokens")
    budget = thinking.integer("budget_tokens", 1, WHOLE)
    if budget is not None and budget >= most:
        raise wrong(thinking.path("budget_tokens"), f"{budget} is not below max_tokens, {most}")
    return bool(kind != "disabled")
