"""The body of /v1/messages, read."""

from typing import Any, Final

from ..refused import wrong
from .anthropic_messages import anthropic_messages
from .asked import MOST_STOPS, Asked, Chat
from .fields import WHOLE, Fields, shown
from .formats import message_format
from .messages import text_of
from .tools import anthropic_tools

UNSUPPORTED: Final[dict[str, tuple[Any, ...]]] = {
    "container": (),
    "mcp_servers": ([],),
}
THINKING: Final = ("disabled", "enabled", "adaptive", "between_tools")
EFFORTS: Final = ("low", "medium", "high", "xhigh", "max")


def read_message(body: object, answered: bool = True) -> Asked:
    """If it is not to be `answered`, only its prompt counted, `max_tokens` is optional."""
    fields = Fields(body)
    fields.refuse(UNSUPPORTED)
    fields.text("model")
    if answered:
        fields.needed("max_tokens")
    given = fields.value("system")
    turns = anthropic_messages(fields, "" if given is None else text_of(given, "system"))
    most = fields.integer("max_tokens", 1, WHOLE) or WHOLE
    temp, top_p = fields.real("temperature", 0, 1), fields.real("top_p", 0, 1)
    options = {
        "temp": 1.0 if temp is None else temp,
        "top_p": None if top_p is None else max(top_p, 1e-6),
        "top_k": fields.integer("top_k", 0, WHOLE),
    }
    return Asked(
        prompts=(Chat(tuple(turns), _names(fields, most), anthropic_tools(fields)),),
        most=most,
        options={name: value for name, value in options.items() if value is not None},
        stop=fields.texts("stop_sequences", MOST_STOPS, one=False),
        stream=fields.flag("stream") or False,
        format=message_format(fields),
    )


def _names(fields: Fields, most: int) -> dict[str, Any]:
    """Further variables for the chat template: whether to think, and how much, by the name that some know it by."""
    names: dict[str, Any] = {"enable_thinking": _thinks(fields, most)}
    given = fields.value("output_config")
    if given is None:
        return names
    config = Fields(given, "output_config")
    effort = config.text("effort")
    if effort is not None and effort not in EFFORTS:
        raise wrong(config.path("effort"), f"{shown(effort)} is not supported, expected {', '.join(EFFORTS)}")
    return names | ({"reasoning_effort": effort} if effort else {})


def _thinks(fields: Fields, most: int) -> bool:
    """Whether the model may think before it answers, if it can. Its budget is only a wish, as in Anthropic's API."""
    given = fields.value("thinking")
    if given is None:
        return False
    thinking = Fields(given, "thinking")
    if (kind := thinking.needed("type")) not in THINKING:
        raise wrong(thinking.path("type"), f"{shown(kind)} is not supported, expected {', '.join(THINKING)}")
    if kind == "enabled":
        thinking.needed("budget_tokens")
    budget = thinking.integer("budget_tokens", 1, WHOLE)
    if budget is not None and budget >= most:
        raise wrong(thinking.path("budget_tokens"), f"{budget} is not below max_tokens, {most}")
    return bool(kind != "disabled")
